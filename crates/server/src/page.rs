//! The operators' page: markup, style and script in one response, with its content security policy.

use axum::response::{Html, IntoResponse, Response};
use http::{StatusCode, header};

const MARKUP: &str = include_str!("../assets/page.html");
const STYLES: [&str; 2] = [include_str!("../assets/page/vendor/uPlot.min.css"), include_str!("../assets/page.css")];
/// Parts of one script, in this order: a part may use at once what is above it, and the rest when it is called.
const SCRIPTS: [&str; 16] = [
    include_str!("../assets/page/vendor/uPlot.iife.min.js"),
    include_str!("../assets/page/words.js"),
    include_str!("../assets/page/dom.js"),
    include_str!("../assets/page/help.js"),
    include_str!("../assets/page/actions.js"),
    include_str!("../assets/page/series.js"),
    include_str!("../assets/page/charts.js"),
    include_str!("../assets/page/overview.js"),
    include_str!("../assets/page/backends.js"),
    include_str!("../assets/page/reuse.js"),
    include_str!("../assets/page/decisions.js"),
    include_str!("../assets/page/decision.js"),
    include_str!("../assets/page/policy.js"),
    include_str!("../assets/page/playground.js"),
    include_str!("../assets/page/keys.js"),
    include_str!("../assets/page/main.js"),
];

/// Serves the page. Only inline code with this response's nonce runs, it connects only to this server, and it cannot be framed.
pub(super) async fn page() -> Response {
    let mut random = [0; 16];
    if let Err(problem) = getrandom::fill(&mut random) {
        return (StatusCode::INTERNAL_SERVER_ERROR, format!("no random numbers: {problem}")).into_response();
    }
    let nonce = format!("{:032x}", u128::from_ne_bytes(random));
    let leave = format!(
        "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; img-src data:; connect-src 'self'; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    );
    let head = [
        (header::CONTENT_SECURITY_POLICY, leave.as_str()),
        (header::CACHE_CONTROL, "no-store"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (head, Html(whole(&nonce))).into_response()
}

fn whole(nonce: &str) -> String {
    let page = MARKUP.replace("{nonce}", nonce).replace("{style}", &STYLES.join("\n"));
    page.replace("{script}", &SCRIPTS.join("\n"))
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_page_is_whole_and_asks_for_nothing_else() {
        // The address that the chart library's licence notice names.
        let page = super::whole("0123").replace("https://github.com/leeoniya/uPlot", "");
        assert!(page.len() <= 200_000, "{} bytes", page.len());
        for rest in ["{nonce}", "{style}", "{script}", " src=", "@import", "url(", "https://"] {
            assert!(!page.contains(rest), "{rest} is in the page");
        }
        assert_eq!(page.matches("nonce=\"0123\"").count(), 2, "the style and the script");
        assert_eq!(page.matches("</script>").count(), 1, "nothing in the script ends it");
    }
}
