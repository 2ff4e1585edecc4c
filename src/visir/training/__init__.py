"""visir.training"""
