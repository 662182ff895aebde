mod grammar_errors;
mod judgement;
mod permissions;
mod pods;
mod selections;
mod statuses;
