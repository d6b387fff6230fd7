//! The operators' page in a real browser, where one is installed: what it shows, how it looks, and that it asks nobody else.
#![allow(clippy::print_stderr, reason = "a test that is left out says so")]

use std::{env, path::PathBuf};

use crate::support::{
    gateway::Start,
    replay::{arrivals, replay},
    sdk,
};

#[tokio::test(flavor = "multi_thread")]
async fn the_page_shows_what_happens() {
    let Some(chromium) = chromium() else {
        eprintln!("no chromium on the PATH (Debian: the package chromium): the page's test is left out");
        return;
    };
    let gateway = Start::simulated().start().await;
    let (url, page) = (gateway.url(), gateway.admin("/"));
    let traffic = async {
        loop {
            replay(&url, arrivals(400, 100), 2.0, &["auto", "small", "large", "small", "long"]).await;
        }
    };
    tokio::select! {
        () = sdk::page(&page, &chromium) => {}
        () = traffic => {}
    }
}

fn chromium() -> Option<PathBuf> {
    let names = ["chromium", "chromium-browser"];
    let paths = env::var_os("PATH")?;
    env::split_paths(&paths).flat_map(|folder| names.map(|name| folder.join(name))).find(|path| path.is_file())
}
