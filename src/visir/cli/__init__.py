"""visir.cli"""
