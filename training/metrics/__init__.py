"""Computes figures as each benchmark's authors do, and signs them with their origin."""
