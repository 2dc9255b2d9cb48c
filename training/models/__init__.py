"""The encoder with its layers in view, the heads on top of it, and the folder that holds a trained model."""
