"""What all tests share: hypothesis never judges by time, which says more of the machine than of the code."""

from hypothesis import HealthCheck, settings

settings.register_profile("tileprobe", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tileprobe")
