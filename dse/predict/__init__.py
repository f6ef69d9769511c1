"""One configuration predicted: a model on so many chips of one kind, in one phase."""
