//! Copy-on-write layers over directories that should not change. Rules for them are refused until they are made here.
#![forbid(unsafe_code)]
