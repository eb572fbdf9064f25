"""All known bugs of plans, by the part of the checker that detects them."""

import gradients
import layouts
import loss_ends
import wrong_axes

BUGS = [*gradients.BUGS, *layouts.BUGS, *wrong_axes.BUGS, *loss_ends.BUGS]
