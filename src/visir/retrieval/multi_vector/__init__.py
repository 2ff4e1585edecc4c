"""Search among multi-vectors (late interaction): MaxSim, exact or after an index has chosen candidates."""
