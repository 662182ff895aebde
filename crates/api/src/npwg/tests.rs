mod judgement;
mod permissions;
mod pods;
mod selections;
mod statuses;
