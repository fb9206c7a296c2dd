//! Every skip that is allowed in continuous integration is listed, with a reason.

const LIST: &str = include_str!("../skips.txt");

#[test]
fn the_list_is_well_formed() {
    for line in LIST.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        assert!(words.len() > 3, "no reason: {line}");
        assert!(["user", "root"].contains(&words[0]), "who? {line}");
    }
}
