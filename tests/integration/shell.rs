//! The shell `dfp`.
