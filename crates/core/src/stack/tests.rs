//! Two stacks over hand-made links.
