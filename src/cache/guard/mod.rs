//! Guards: differences between two texts that no closeness of their vectors outweighs.
