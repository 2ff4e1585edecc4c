def simulations(s): return []
