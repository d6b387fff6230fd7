//! Checks that the reference pages that are written by hand list what the sources have.

use std::fs;

use crate::workspace::root;

/// The texts of all files of `crates/{name}`, without their tests.
fn sources(name: &str) -> Vec<String> {
    let mut folders = vec![root().join("crates").join(name).join("src")];
    let mut texts = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let text = fs::read_to_string(&path).unwrap();
                texts.push(text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default().to_owned());
            }
        }
    }
    texts
}

#[test]
fn every_admin_path_is_listed() {
    let page = include_str!("../../../../docs/reference/admin-api.md");
    let mut paths = 0;
    for text in sources("server") {
        for (_, rest) in text.match_indices(".route(\"").map(|(at, found)| text.split_at(at + found.len())) {
            let path = rest.split('"').next().unwrap_or_default();
            assert!(page.contains(&format!("{path}`")), "docs/reference/admin-api.md does not list {path}");
            paths += 1;
        }
    }
    assert!(paths > 10, "the paths are registered in another way: {paths} were found");
}

#[test]
fn every_header_of_ours_is_listed() {
    let page = include_str!("../../../../docs/reference/headers.md");
    let mut headers = 0;
    for text in sources("gateway") {
        for (_, rest) in text.match_indices("\"x-signalbox-").map(|(at, _)| text.split_at(at + 1)) {
            let header = rest.split('"').next().unwrap_or_default();
            if header.ends_with('-') {
                continue; // the prefix of all of them
            }
            assert!(page.contains(&format!("`{header}`")), "docs/reference/headers.md does not list {header}");
            headers += 1;
        }
    }
    assert!(headers > 10, "headers are written in another way: {headers} were found");
}
