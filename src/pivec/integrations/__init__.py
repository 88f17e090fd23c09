"""pivec.integrations"""
