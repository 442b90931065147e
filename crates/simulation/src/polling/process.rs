//! One worker process: the real core, its producer, and what it has asked and was not told yet.

use std::{collections::VecDeque, time::Duration};

use relay::{
    Failure, Moment, Ticket, TopicId,
    delivered::ServerSession,
    polling::{
        Described, FetchRequest, Fetched, LeaseRequest, Leases, Poller, RequestNumber,
        SettleRequest, Settled, TableIndex,
    },
};

use super::producer::PolledProducer;

/// A statement on rows.
#[derive(Debug, Clone)]
pub enum Statement {
    /// What a table looks like.
    Describe(TableIndex),
    /// Pending rows.
    Fetch(FetchRequest),
    /// What became of rows.
    Settle(SettleRequest),
}

/// The answer to a [`Statement`].
#[derive(Debug)]
pub enum StatementAnswer {
    /// To [`Statement::Describe`].
    Described(TableIndex, Result<Described, Failure>),
    /// To [`Statement::Fetch`].
    Fetched(Result<Fetched, Failure>),
    /// To [`Statement::Settle`].
    Settled(Result<Settled, Failure>),
}

impl StatementAnswer {
    /// The connection is gone, and nothing is known of the statement.
    pub fn lost(statement: &Statement, failure: Failure) -> Self {
        match statement {
            Statement::Describe(table) => Self::Described(*table, Err(failure)),
            Statement::Fetch(_) => Self::Fetched(Err(failure)),
            Statement::Settle(_) => Self::Settled(Err(failure)),
        }
    }
}

/// A request on its way to the server, or an answer on its way back.
#[derive(Debug)]
pub enum Call<R, A> {
    /// The server has not carried it out.
    Asked(R),
    /// The server has, or the connection is gone.
    Answered(A),
}

/// A request, and when it was made.
#[derive(Debug)]
pub struct Asked<R, A> {
    /// When it was made.
    pub at: Moment,
    /// Where it is.
    pub call: Call<R, A>,
}

/// What happens to the next request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mishap {
    /// It fails and does nothing.
    Refused,
    /// It is carried out, and the answer is lost.
    AnswerLost,
}

/// What follows when the process has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Afterwards {
    /// Another one is started in its place.
    Restart,
    /// Nothing.
    Gone,
}

/// See the module's header.
pub struct Process {
    /// Unique in the run.
    pub number: u64,
    /// The core.
    pub core: Poller,
    /// The tables that it polls, in the order of its configuration.
    pub tables: Vec<usize>,
    /// Of each of them, how many workers it has been told of.
    pub workers: Vec<u32>,
    /// None while it is being made.
    pub producer: Option<PolledProducer>,
    /// When the next producer is there.
    pub producer_at: Option<Moment>,
    /// The statement under way.
    pub statement: Option<Asked<Statement, StatementAnswer>>,
    /// The connection for statements.
    pub session: ServerSession,
    /// The lease request under way.
    pub lease: Option<Asked<LeaseRequest, Result<Leases, Failure>>>,
    /// The number of the last lease request.
    pub lease_number: RequestNumber,
    /// Topics that are looked up, with the producer through which they are.
    pub look_ups: VecDeque<(u64, TopicId, usize)>,
    /// Acknowledgements of former producers that nobody has taken.
    pub stale: VecDeque<(Ticket, TopicId)>,
    /// When it goes on, if it is stopped by SIGSTOP.
    pub frozen_until: Option<Moment>,
    /// The core's deadline.
    pub wake_at: Option<Moment>,
    /// Whether it is killed as soon as some of its records are stored and others are not.
    pub is_killed_amid_records: bool,
    /// For how long it reaches no server, from its next marks on.
    pub cut_off_at_marks: Option<Duration>,
    /// Until when lease requests reach no server.
    pub lease_cut_until: Moment,
    /// Until when statements reach no server.
    pub statements_cut_until: Moment,
    /// What happens to the next lease request.
    pub lease_mishap: Option<Mishap>,
    /// What happens to the next statement.
    pub statement_mishap: Option<Mishap>,
    /// Whether SIGTERM came while it was stopped by SIGSTOP.
    pub is_asked_to_stop: bool,
    /// When it was asked to stop. Time in which it is frozen does not count.
    pub stop_asked_at: Option<Moment>,
    /// What follows when it has ended.
    pub afterwards: Afterwards,
    /// Requests since time has passed, or rows were read or marked.
    pub requests: u32,
    /// Readings without rows in a row, and since when.
    pub empty_reads: (u32, Moment),
}

impl Process {
    /// A process that has done nothing yet.
    pub fn start(number: u64, core: Poller, tables: Vec<usize>) -> Self {
        Self {
            number,
            core,
            workers: vec![1; tables.len()],
            tables,
            producer: None,
            producer_at: None,
            statement: None,
            session: ServerSession::default(),
            lease: None,
            lease_number: RequestNumber::default(),
            look_ups: VecDeque::new(),
            stale: VecDeque::new(),
            frozen_until: None,
            wake_at: None,
            is_killed_amid_records: false,
            cut_off_at_marks: None,
            lease_cut_until: Moment::default(),
            statements_cut_until: Moment::default(),
            lease_mishap: None,
            statement_mishap: None,
            is_asked_to_stop: false,
            stop_asked_at: None,
            afterwards: Afterwards::Restart,
            requests: 0,
            empty_reads: (0, Moment::default()),
        }
    }

    /// The place of a table in its configuration, if it polls the table.
    pub fn place_of(&self, table: usize) -> Option<TableIndex> {
        self.tables.iter().position(|polled| *polled == table).map(TableIndex)
    }

    /// A statement about the table at this place of its configuration names the table itself.
    pub fn named(&self, mut statement: Statement) -> Statement {
        let (Statement::Describe(table)
        | Statement::Fetch(FetchRequest { table, .. })
        | Statement::Settle(SettleRequest { table, .. })) = &mut statement;
        *table = TableIndex(self.tables[table.0]);
        statement
    }

    /// Whether it is not stopped.
    pub fn runs(&self) -> bool {
        self.frozen_until.is_none()
    }
}
