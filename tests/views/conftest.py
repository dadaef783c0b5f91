import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "trace"))

os.environ.setdefault("TRITON_DEFAULT_BACKEND", "cpu")
sys.path.insert(0, os.path.dirname(__file__))
