//! Rules for refusals of engines and providers that have no profile, or say something new.
//!
//! Each rule names a thing and what is wrong with it. The order matters: a refusal for the tokens of a minute also speaks
//! of too many tokens.

use super::{Verdict, refused::Error};

/// Codes of each verdict.
const CODES: [(Verdict, &str); 6] = [
    (
        Verdict::Request,
        "contentfilter|contentpolicyviolation|contentfiltered|responsibleaipolicyviolation|moderationblocked|stringabovemaxlength|\
         arrayabovemaxlength",
    ),
    (
        Verdict::Operator,
        "insufficientquota|insufficientbalance|insufficientfunds|insufficientcredits|billinghardlimitreached|\
         billingnotactive|billingerror|paymentrequired|creditlimitreached|quotaexhausted|invalidapikey|incorrectapikey|\
         apikeyinvalid|invalidauthentication|authenticationerror|unauthenticated|unauthorized|accountdeactivated|\
         accountsuspended|accountdisabled|modeldecommissioned|modeldeprecated|modelretired|permissiondenied|permissionerror|\
         accessdenied|accessdeniedexception|unsupportedcountryregionterritory",
    ),
    (
        Verdict::TooLong,
        "contextlengthexceeded|exceedcontextsizeerror|contextwindowexceeded|contextwindowexceedederror|\
         modelcontextwindowexceeded|maxcontextlengthexceeded|contextoverflow|contexttoolong|tokenslimitreached|\
         prompttoolong|inputtoolong",
    ),
    (
        Verdict::Full,
        "overloadederror|overloaded|engineoverloaded|engineoverloadederror|serveroverloaded|modeloverloaded|\
         serverbusy|queuefull|capacityexceeded|nocapacity|overcapacity",
    ),
    (
        Verdict::RateLimited,
        "ratelimitexceeded|ratelimiterror|ratelimitreached|ratelimited|ratelimit|toomanyrequests|throttling|\
         throttlingexception|requestlimitexceeded",
    ),
    (Verdict::NotHere, "modelnotready|modelnotreadyexception|modelloading|modelnotloaded|notready|servicestarting"),
];

/// Words about content that a provider does not process for anybody.
const MODERATION: &str = "content policy|content policies|content filter*|content management policy|moderation|flagged|\
    safety system|usage policies|usage policy|inappropriate content";

/// Words about the account, its money, or the choice of the model.
const ACCOUNT: [&str; 7] = [
    "credit balance|insufficient balance|insufficient credit*|insufficient fund*|insufficient quota|insufficient account balance|\
     not enough credit*|not enough balance|out of credit*|no credit*|no remaining credit*|credits exhausted|credits have been|\
     credits are exhausted|credit limit|requires more credits|exceeded your current quota|billing|payment required|payment method|\
     payment is required|unpaid|overdue|arrears|arrearage|in good standing|spending limit|spend limit|spending cap|monthly spend|\
     api usage limits|top up|recharge|prepaid balance|subscription has|subscription is|active subscription|free trial|\
     account balance|欠费|余额不足|充值|额度不足",
    "api key|api keys|apikey|api token|auth token|access token|bearer token|credential* & invalid|not valid|incorrect|expired|missing|revoked|\
     disabled|deleted|unauthorized|not authorized|provide|wrong|malformed|no longer|blocked|suspended",
    "account|organization|organisation|project|workspace & suspended|deactivated|disabled|not active|inactive|terminated|\
     blocked|banned|restricted|must be verified|not verified|closed|on hold",
    "authentication failed|authentication required|invalid authentication|failed to authenticate|could not authenticate|\
     not authenticated",
    "model|models|deployment|version & decommissioned|retired|end of life|no longer available|no longer supported|\
     no longer offered|no longer exists|has been deprecated|been deprecated|been discontinued|been shut down|was shut down|\
     been removed|sunset",
    "country|region|territory|location & not supported|unsupported|not available in your|not allowed",
    "daily limit|monthly limit|monthly quota|weekly limit|daily quota & exceeded|reached|exhausted",
];

/// Words about rights, which some servers also use for objects of a caller.
const RIGHTS: &str = "permission denied|not have permission|not have access|no access to|not authorized|access denied|not entitled|\
    not permitted to use|not enabled for|access is forbidden";

/// Words about the rate of an account.
const RATE: &str = "per minute|per second|per hour|per day|tpm|rpm|tpd|rpd|rate limit|rate limits|rate limited|rate limiting|\
    ratelimit|too many requests|throttl*|request limit exceeded|请求过于频繁|限流";

/// Words of an engine without room.
const FULL: &str = "queue is full|queue full|queue is at|queue limit|queue size|queue length|maximum pending requests|max queued*|\
    maximum queued|too many queued|too many pending|too many concurrent|too many in flight|too many connections|too many running|\
    at capacity|over capacity|capacity exceeded|no capacity|exceeded capacity|insufficient capacity|out of capacity|\
    capacity limit|capacity constraints|overloaded|overload|is busy|currently busy|server busy|too busy|are busy|high demand|\
    high load|heavy load|heavy traffic|high traffic|no free slot*|no available slot*|no slot*|slots are|concurrency limit|\
    max concurrency|maximum concurrency|maximum number of concurrent|cannot accept new requests|not accepting new requests|\
    负载|繁忙";

/// Words of a model that is not there at present.
const NOT_HERE: &str = "loading model|model is loading|loading the model|currently loading|still loading|being loaded|is loading|\
    model loading|not ready|not yet ready|not been loaded|starting up|is starting|still starting|being started|warming up|\
    cold start|initializing|no models loaded|no model loaded|no model is loaded|no models are loaded|model not loaded|\
    is not loaded|not currently loaded|is unloaded|been unloaded|is sleeping|is asleep|sleep mode|engine is paused|server is paused|\
    is paused|shutting down|is draining|scaled to zero|no available workers|no workers|no worker|no healthy|no instances|no available instances|\
    no replicas|no available replicas|no running|no backends|no servers available|no endpoints available|no upstream*|being deployed|is deploying";

/// Words about the limit on the answer, not on the prompt.
const OUTPUT_LIMIT: &str = "max tokens|max completion tokens|max output tokens|max new tokens|maxoutputtokens|maxtokens|output tokens|\
    completion tokens & supports at most|maximum allowed|maximum value|valid range|less than or equal|is too large|too high|\
    too big|must be at most|at most|le|out of range|exceeds the maximum|supported range|cannot be greater|must not exceed|\
    between # and #";

/// Names of the context.
const CONTEXT: &str = "context length|context window|context size|context limit|context budget|maximum context|max context|context overflow*|\
    context the overflows|model length|max model len|model token limit|max seq len|max sequence length|maximum sequence length|\
    session len|n ctx|max input length|max input tokens|maximum input tokens|maximum input length|max prompt len|maximum prompt length|\
    max num tokens|max total tokens|context";
/// Names of what a caller sends.
const INPUT: &str = "prompt|prompts|input|inputs|message|messages|conversation|request|history|query|document|documents|text|texts|\
    sequence|content|contents|batch|you requested|total tokens|chat|instruction*";
/// Names of its length.
const LENGTH: &str = "token|tokens|length|long|seq len|context";
/// Words for too much of it.
const TOO_MUCH: &str = "exceed|exceeds|exceeded|exceeding|too long|too large|too big|too many tokens|too many input tokens|\
    too many prompt tokens|longer than|larger than|greater than|more than|bigger than|higher than|gt|over the|above the|beyond|overflow*|le|\
    cannot be longer|supports up to|only supports|supports only|supports at most|support at most|max allowed|maximum allowed|range of input length|reduce|shorten|less than|\
    fewer than|does not fit|doesnt fit|not fit|no longer fits|not enough|limited to|limit is|maximum is|maximum of|has only|is only|of only|at most|contains|surpass*|but got|超过|超长|超出";
/// Words about lengths of other things.
const OTHER_LENGTHS: &str = "string too long|array too long|expected a string|expected an array|stop sequence*|too many tools|image is|images is|image size|\
    file size|file is|must be greater than|user id|characters|timed out|timeout|too many messages|too many images|tool name*|function name*|description|\
    deadline|canceled|megabytes|mb|kb|bytes|at least # item*|empty|batch size # is";

/// Words about something that this model or engine lacks.
const LACKS: &str = "not support|not supported|does not support|doesnt support|do not support|is unsupported|unsupported|isnt supported|arent supported|no support for|\
    not available for this model|not available with this model|not allowed for this model|not compatible with|incompatible with this model|not a multimodal|not multimodal|not a vision|cannot process|cant process|\
    not implemented|cannot see|not capable|not accept image*|does not accept|only accepts text|text only|not enabled on this server";
/// Words about parts of a request that some engines do not know.
const UNKNOWN_PARTS: [&str; 12] = [
    "no endpoints found that support|at most 0|at most # & image*|audio*|video*|picture*",
    "unknown variant|unexpected variant",
    "content must be a string|content should be a string|content to be a string|content must be string|content must be text",
    "is not one of|not a valid role|invalid role|unknown role|unexpected role & role|roles|developer|system|user",
    "extra inputs|extra fields|additional properties & not permitted|not allowed|forbidden",
    "unrecognized request argument*|unrecognized argument*|unknown parameter|unrecognized parameter|unexpected keyword argument",
    "number must be at most #|n must be #|n must be at most #|n must be le #|only n #|n is not|best of must",
    "roles must alternate|role must alternate|roles should alternate|must alternate between|system role|system message must be|\
     system messages must be|system message at the beginning|only user and assistant roles",
    "prefill|conversation must end with a user|last message must be|final message must be",
    "out of vocab*|out of vocabulary",
    "failed to convert|failed to compile|could not compile|failed to parse|cannot compile|too complex & grammar|schema|regex",
    "requires|required|start the server|enable|launch & enable auto tool choice|tool call parser|mmproj|reasoning parser|\
     embeddings|chat template",
];

/// Verdict by the codes and words of an error, if they say enough.
pub(crate) fn by_words(error: &Error<'_>) -> Option<Verdict> {
    if error.says(MODERATION) {
        return Some(Verdict::Request);
    }
    let coded = |wanted: Verdict| CODES.iter().any(|(verdict, codes)| *verdict == wanted && error.has_code(codes));
    if coded(Verdict::Request) {
        return Some(Verdict::Request);
    }
    if coded(Verdict::TooLong) {
        return Some(Verdict::TooLong);
    }
    let is_account = coded(Verdict::Operator)
        || ACCOUNT.iter().any(|words| error.says(words))
        || error.may_be(&[400, 401, 403]) && error.says(RIGHTS);
    if is_account {
        return Some(Verdict::Operator);
    }
    if coded(Verdict::Full) || error.may_be(&[429, 498, 500, 502, 503, 529]) && error.says(FULL) {
        return Some(Verdict::Full);
    }
    if coded(Verdict::RateLimited) || error.says(RATE) {
        return Some(Verdict::RateLimited);
    }
    if coded(Verdict::NotHere) || error.says_without(NOT_HERE, "file|video|batch|image") {
        return Some(Verdict::NotHere);
    }
    if is_output_limit(error) {
        return Some(Verdict::Incapable);
    }
    if error.may_be(&[400, 404, 413, 422, 500]) && is_too_long(error) {
        return Some(Verdict::TooLong);
    }
    (error.may_be(&[400, 404, 405, 413, 422, 500, 501]) && is_lacking(error)).then_some(Verdict::Incapable)
}

/// True if the limit on the answer is larger than the model allows.
fn is_output_limit(error: &Error<'_>) -> bool {
    error.may_be(&[400, 422]) && error.says_without(OUTPUT_LIMIT, PROMPT_TOO)
}

/// Words that show that the prompt counts too, in refusals that also name the limit on the answer.
const PROMPT_TOO: &str = "prompt|input tokens|inputs|input length|messages|context length|context limit|context size|requested|must be positive|greater than # but";

fn is_too_long(error: &Error<'_>) -> bool {
    let is_about = |names: &str| format!("{names}&{LENGTH}&{TOO_MUCH}");
    error.says_without(&is_about(INPUT), OTHER_LENGTHS)
        || error.says_without(&format!("{CONTEXT}&{TOO_MUCH}|maximum|limit|requested|resulted|increase|configured"), OTHER_LENGTHS)
        || error.says("too many tokens|too many input tokens|token limit exceeded|input too long|prompt too long|prompt is too long|prompt too large|prompt is too large|\
             输入过长|上下文")
        || error.says_without("长度|token|tokens & 超过|超出|超长|过长|超限", "图片|文件|名称")
}

fn is_lacking(error: &Error<'_>) -> bool {
    // The gateway renames this parameter itself where a provider wants the other name.
    const RENAMED: &str = "unsupported parameter max tokens is not supported with this model";
    let renamed = error.says(RENAMED) && !error.says("instead");
    !renamed && (error.says(LACKS) || UNKNOWN_PARTS.iter().any(|words| error.says(words)))
        || error.says("invalid stop array too long")
}

/// Verdict where only the status says something.
pub(crate) fn by_status(error: &Error<'_>) -> Verdict {
    match error.status {
        Some(401..=403) => Verdict::Operator,
        Some(404 | 405 | 409 | 421 | 423 | 425) => Verdict::NotHere,
        // 413: a provider, or a proxy in front of the engine, takes no body of this size.
        Some(410 | 413 | 451 | 501) => Verdict::Incapable,
        Some(429) => Verdict::RateLimited,
        // Groq's status for a tier without capacity, and Anthropic's.
        Some(498 | 529) => Verdict::Full,
        // A timeout, a failed generation, and requests that a proxy gave up.
        None | Some(408 | 424 | 444 | 460..=464 | 499 | 500..) => Verdict::Broken,
        Some(_) => Verdict::Request,
    }
}
