"""What the network computes: architectures, their lowering, variants and deployments."""
