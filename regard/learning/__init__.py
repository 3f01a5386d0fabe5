"""How weights are changed: the settings of a training, optimizers and schedules."""
