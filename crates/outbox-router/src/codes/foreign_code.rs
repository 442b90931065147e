//! Code of other roles, which a session does not run.

use relay::{Case, Code};

use super::explanation::{Explanation, case_remedy};

pub(super) const EXPLANATIONS: &[Explanation] = &[Explanation {
    code: Code::ForeignCode.as_str(),
    title: "a table has code of another role, which would run with the rights of this session",
    meaning: "A trigger, a rule, a cast, a view, or a function in an index, a constraint, a default \
              or a policy runs as the role that reads or writes the rows. The session's role may do \
              more than the owner of that code: it is a superuser, may replicate, is a member of more \
              roles, or works on tables of several owners. With its rights the owner could do \
              anything, so no statement was run. docs/security.md says what each role may do to the \
              other. A router asks again every 30 s.",
    remedy: "let the router connect as a role that may do no more than that owner and has no other \
             owner's tables, in postgres.url; or drop what the message names, or give the table and \
             its functions to a superuser",
    cases: &[
        case_remedy(
            Case::CommandRunsForeign,
            "a command would run it",
            "connect as the owner of the code: {statements}; or drop what the message names; an owner \
             that may not log in needs a role that is a member of it alone: `create role NAME login \
             in role {role}`",
        ),
        case_remedy(
            Case::RouterSchemaForeign,
            "the schema outbox_router, or a table of it, belongs to a role that is not trusted",
            "if the message names a role that you trust, hand it over: {statements}; if not: `drop \
             schema outbox_router cascade`, take the right to create schemas from that role, and \
             type the same command again",
        ),
    ],
}];
