//! Keyword scorer as a baseline: weighted keywords after the public description of `LiteLLM`'s complexity router (its default dimensions, weights
//! and token thresholds; the word lists are our own).

/// Weights of length, code, reasoning, technical terms, simple questions, steps and several questions.
const LENGTH: f64 = 0.10;
const CODE: f64 = 0.30;
const REASONING: f64 = 0.25;
const TECHNICAL: f64 = 0.25;
const SIMPLE: f64 = 0.05;
const STEPS: f64 = 0.03;
const QUESTIONS: f64 = 0.02;

/// Prompts with fewer tokens count as simple, with more as complex.
const FEW_TOKENS: usize = 15;
const MANY_TOKENS: usize = 400;

const CODE_WORDS: &str = "function,class,def,const,import,return,async,await,exception,debug,api,endpoint,database,sql,query,\
    algorithm,implement,refactor,python,javascript,typescript,java,rust,golang,docker,kubernetes,git,code,bug,compile";
const REASONING_WORDS: &str = "step by step,think through,reason,analyze,analyse,break down,explain why,pros and cons,compare,\
    contrast,evaluate,trade-offs,weigh,consider,logically,prove,derive";
const TECHNICAL_WORDS: &str = "architecture,distributed,scalable,microservice,machine learning,neural network,deep learning,\
    encryption,authentication,authorization,performance,latency,throughput,concurrency,parallel,memory,optimization,protocol,\
    container,orchestration";
const SIMPLE_WORDS: &str = "what is,define,who is,who was,when did,when was,where is,how many,how much,yes or no,true or false,\
    simple,brief,short,quick,hello,hi,thanks";
const STEP_WORDS: &str = "first,then,step 1,finally,next";

/// Score of a prompt, larger for more complex.
pub(super) fn keywords(prompt: &str) -> f64 {
    let text = prompt.to_lowercase();
    let tokens = prompt.len() / 4;
    let length = match tokens {
        FEW_TOKENS..=MANY_TOKENS => 0.0,
        short if short < FEW_TOKENS => -1.0,
        _ => 1.0,
    };
    let found = |words: &str| words.split(',').filter(|word| has(&text, word)).count();
    let graded = |count: usize| match count {
        0 => 0.0,
        1 => 0.5,
        _ => 1.0,
    };
    let simple = if found(SIMPLE_WORDS) > 0 { -1.0 } else { 0.0 };
    let steps = if found(STEP_WORDS) >= 2 { 0.5 } else { 0.0 };
    let questions = if text.matches('?').count() > 3 { 0.5 } else { 0.0 };
    LENGTH * length
        + CODE * graded(found(CODE_WORDS))
        + REASONING * graded(found(REASONING_WORDS))
        + TECHNICAL * graded(found(TECHNICAL_WORDS))
        + SIMPLE * simple
        + STEPS * steps
        + QUESTIONS * questions
}

/// True if `word` occurs in `text` as a whole word.
fn has(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + word.len()..].chars().next();
        [before, after].into_iter().flatten().all(|neighbour| !neighbour.is_alphanumeric())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keywords_raise_the_score_and_simple_questions_lower_it() {
        assert!(keywords("Debug this python function and explain why it fails") > 0.3);
        assert!(keywords("what is a prime?") < 0.0);
        assert!(!has("thinking", "thin") && has("a thin one", "thin"));
    }
}
