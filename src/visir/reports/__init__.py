"""visir.reports"""
