"""Views: tables, findings and traces made visible. One format a file; none of them computes anything new."""
