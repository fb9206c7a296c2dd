//! Links between documents, and to files of the sources.

use super::{documents, root};

/// Does the path lie where a clone has it, in a place where the suite runs without a clone?
fn is_left_out(target: &std::path::Path) -> bool {
    let first = target.components().next().unwrap();
    !root().join(".ci").exists() && !root().join(first).exists()
}

#[test]
fn every_link_leads_somewhere() {
    let mut broken = Vec::new();
    for document in documents() {
        for link in document.links().into_iter().filter(|link| !link.contains("://")) {
            let (path, anchor) = link.split_once('#').map_or((link.as_str(), None), |(path, id)| (path, Some(id)));
            let directory = document.name.parent().unwrap();
            let target = if path.is_empty() { document.name.clone() } else { normal(&directory.join(path)) };
            let file = root().join(&target);
            let known = || super::Document::read(&root(), &file).anchors();
            let leads = file.exists() && anchor.is_none_or(|anchor| known().iter().any(|known| known == anchor));
            if !leads && !is_left_out(&target) {
                broken.push(format!("{}: {link}", document.name.display()));
            }
        }
    }
    assert_eq!(broken, Vec::<String>::new());
}

/// Without `..`, by name.
fn normal(path: &std::path::Path) -> std::path::PathBuf {
    path.components().fold(std::path::PathBuf::new(), |mut so_far, part| {
        if part == std::path::Component::ParentDir {
            so_far.pop();
        } else {
            so_far.push(part);
        }
        so_far
    })
}

#[test]
fn every_document_can_be_reached_from_the_first() {
    let (mut open, mut seen) = (vec![std::path::PathBuf::from("README.md")], Vec::new());
    while let Some(name) = open.pop() {
        if seen.contains(&name) || !root().join(&name).exists() {
            continue;
        }
        let document = super::document(name.to_str().unwrap());
        let links = document.links().into_iter().map(|link| link.split('#').next().unwrap().to_owned());
        let directory = name.parent().unwrap().to_owned();
        open.extend(links.map(|link| normal(&directory.join(link))).filter(|path| super::is_markdown(path)));
        seen.push(name);
    }
    let unreached = documents().into_iter().map(|document| document.name).filter(|name| !seen.contains(name));
    let unreached: Vec<_> = unreached.filter(|name| name.as_os_str() != "CHANGELOG.md").collect();
    assert_eq!(unreached, Vec::<std::path::PathBuf>::new());
}
