"""The outer world of model calls: litellm, what responses report, what errors mean.

Only here is litellm named. Nothing in this package imports it, or openai, before a call is made.
"""
