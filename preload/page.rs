/// Where the instruction lies that the filter lets pass: in what is the program's own for every sanitizer (their tables of
/// what belongs to whom are fixed), above what programs with a fixed address have low, below 2 GiB.
pub const PAGE: usize = 0x7000_0000;
