// Exists so that the precompiled header of all tests belongs to a target of its own.
