"""visir.search"""
