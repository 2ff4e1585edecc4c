SOURCES = ("evaluation",)


def simulations(s):
    return []
