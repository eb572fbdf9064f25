"""All bugs on record that a plan can have, by the part of the checker that sees them."""

import gradients
import layouts
import loss_ends
import wrong_axes

BUGS = [*gradients.BUGS, *layouts.BUGS, *wrong_axes.BUGS, *loss_ends.BUGS]
