//! The operators' page: markup, style and script in one response, with its content security policy.

use axum::response::{Html, IntoResponse, Response};
use http::{StatusCode, header};

const MARKUP: &str = include_str!("../../assets/page.html");
const STYLE: &str = include_str!("../../assets/page.css");
const SCRIPT: &str = include_str!("../../assets/page.js");

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
    MARKUP.replace("{nonce}", nonce).replace("{style}", STYLE).replace("{script}", SCRIPT)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_page_is_whole_and_asks_for_nothing_else() {
        let page = super::whole("0123");
        for rest in ["{nonce}", "{style}", "{script}", " src=", "@import", "url(", "https://"] {
            assert!(!page.contains(rest), "{rest} is in the page");
        }
        assert_eq!(page.matches("nonce=\"0123\"").count(), 2, "the style and the script");
        assert_eq!(page.matches("</script>").count(), 1, "nothing in the script ends it");
    }
}
