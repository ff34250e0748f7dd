"""Variables of stateful models."""
