//! The project's own chores: benchmarks, generated files
