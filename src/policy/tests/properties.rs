//! What holds for any rules.
