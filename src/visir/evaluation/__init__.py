"""visir.evaluation"""
