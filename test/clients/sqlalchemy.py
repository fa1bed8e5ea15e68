# sqlalchemy.py: an application with SQLAlchemy's ORM and core, whose tables change by alembic's operations. The revision that
# distributes them says so by op.execute, as docs/frameworks.md says.
import datetime
import enum
import os
import uuid
from decimal import Decimal

import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.operations import Operations
from sqlalchemy import func, select
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, UUID, insert
from sqlalchemy.orm import Session, aliased, declarative_base, joinedload, relationship, selectinload

from steps import own, step

engine = sa.create_engine('postgresql+psycopg2://%(PGUSER)s:%(PGPASSWORD)s@%(PGHOST)s:%(PGPORT)s/%(PGDATABASE)s' % os.environ)
Base = declarative_base()


class State(enum.Enum):
    new = 'new'
    paid = 'paid'


class Account(Base):
    __tablename__ = 'accounts'
    id = sa.Column(sa.Integer, sa.Identity(), primary_key=True)
    name = sa.Column(sa.String(30), nullable=False, index=True)
    opened = sa.Column(sa.DateTime(timezone=True), server_default=func.now())
    owner = sa.Column(sa.ForeignKey('people.id'))
    person = relationship('Person', back_populates='accounts')
    entries = relationship('Entry', back_populates='account', cascade='all, delete-orphan', passive_deletes=True)
    version = sa.Column(sa.Integer, nullable=False)
    __mapper_args__ = {'version_id_col': version}


class Person(Base):
    __tablename__ = 'people'
    id = sa.Column(sa.BigInteger, primary_key=True)
    name = sa.Column(sa.Text, unique=True)
    accounts = relationship('Account', back_populates='person')


class Entry(Base):
    __tablename__ = 'entries'
    account_id = sa.Column(sa.ForeignKey('accounts.id', ondelete='CASCADE'), primary_key=True)
    number = sa.Column(sa.Integer, primary_key=True)
    amount = sa.Column(sa.Numeric(12, 2), nullable=False)
    state = sa.Column(sa.Enum(State, name='entry_state'), nullable=False, default=State.new)
    day = sa.Column(sa.Date, nullable=False)
    words = sa.Column(ARRAY(sa.Text))
    detail = sa.Column(JSONB)
    reference = sa.Column(UUID(as_uuid=True), default=lambda: uuid.uuid5(uuid.NAMESPACE_OID, 'x'))
    account = relationship('Account', back_populates='entries')
    __table_args__ = (sa.CheckConstraint('amount <> 0', name='not_nothing'), sa.Index('by_day', 'day', 'number'))


def rows(statement, session=None):
    if session:
        return [list(row) for row in session.execute(statement)]
    with engine.connect() as connection:
        return [list(row) for row in connection.execute(statement)]


def migrate(change):
    with engine.begin() as connection:
        return change(Operations(MigrationContext.configure(connection)))


def entry(i, **changed):
    return {'account_id': 1 + i % 40, 'number': i, 'amount': Decimal(i + 1) / 4, 'day': datetime.date(2026, 1, 1) + datetime.timedelta(days=i % 60),
            'state': State.paid if i % 3 else State.new, 'words': ['w%d' % (i % 7), "it's"], 'detail': {'n': i, 'even': i % 2 == 0}, **changed}


@step
def create_all():
    Base.metadata.create_all(engine)
    return sorted(table for table in Base.metadata.tables)


@step
def distribute():
    sql = own('distribute', "SELECT * FROM rdma.distribute_tables('nodes', '{accounts,entries}', '{id,account_id}', replicated => '{people}')")
    migrate(lambda op: op.execute(sql))


@step
def create_all_again():
    # checks which tables are there
    Base.metadata.create_all(engine)


@step
def add_all():
    with Session(engine) as session:
        people = [Person(name='person %d' % i) for i in range(6)]
        accounts = [Account(name='account %d' % i, person=people[i % 6] if i % 4 else None, opened=datetime.datetime(2026, 1, 1 + i % 28, tzinfo=datetime.timezone.utc))
                    for i in range(40)]
        session.add_all(people + accounts)
        session.commit()
        return [person.id for person in people], [account.id for account in accounts]


@step
def insert_many():
    with Session(engine) as session:
        session.execute(sa.insert(Entry), [entry(i) for i in range(400)])
        session.bulk_insert_mappings(Entry, [entry(i) for i in range(400, 500)])
        session.bulk_save_objects([Entry(**entry(i)) for i in range(500, 600)])
        session.commit()
    return rows(select(func.count(), func.sum(Entry.amount), func.count(sa.distinct(Entry.reference))))


@step
def insert_returning():
    with engine.begin() as connection:
        return [list(row) for row in connection.execute(
            sa.insert(Entry).values([entry(i) for i in range(600, 604)]).returning(Entry.number, Entry.state, Entry.detail['n']))]


@step
def upsert():
    statement = insert(Entry).values([entry(i, amount=7) for i in (5, 6, 700)])
    with engine.begin() as connection:
        changed = connection.execute(statement.on_conflict_do_update(
            index_elements=['account_id', 'number'], set_={'amount': statement.excluded.amount + Entry.amount, 'state': State.new},
            where=Entry.number < 600).returning(Entry.number, Entry.amount))
        result = sorted(list(row) for row in changed)
        nothing = connection.execute(insert(Entry).values([entry(5), entry(701)]).on_conflict_do_nothing()).rowcount
    return result, nothing


@step
def upsert_by_constraint():
    statement = insert(Entry).values([entry(5, amount=8)])
    with engine.begin() as connection:
        connection.execute(statement.on_conflict_do_update(constraint='entries_pkey', set_={'reference': statement.excluded.reference}))


def queries(**named):
    for name, query in named.items():
        def run(query=query):
            if callable(query):
                with Session(engine) as session:
                    return query(session)
            return rows(query)
        run.__name__ = name
        step(run)


other = aliased(Entry)
latest = select(Entry.account_id, func.max(Entry.number).label('last')).group_by(Entry.account_id).subquery()
tree = select(Account.id, Account.name).where(Account.id == 1).cte('tree', recursive=True)
tree = tree.union_all(select(Account.id, Account.name).join(tree, Account.id == tree.c.id + 7))
queries(
    get=lambda session: (session.get(Account, 3).name, session.get(Entry, (2, 1)).detail),
    joined=select(Account.name, Person.name, func.sum(Entry.amount)).join(Account.entries).outerjoin(Account.person).group_by(Account.name, Person.name).order_by(Account.name),
    by_primary_key=select(Account.id, Account.name, func.count()).join(Account.entries).group_by(Account.id).order_by(Account.id),
    joinedload=lambda session: [(a.name, a.person and a.person.name, len(a.entries)) for a in session.scalars(
        select(Account).options(joinedload(Account.person), joinedload(Account.entries)).order_by(Account.id)).unique()],
    selectinload=lambda session: [(p.name, sorted(a.id for a in p.accounts)) for p in session.scalars(select(Person).options(selectinload(Person.accounts)).order_by(Person.id))],
    lazy=lambda session: [e.account.person.name for e in session.scalars(select(Entry).where(Entry.number.in_([1, 2, 3])).order_by(Entry.number))],
    exists=select(Account.id).where(~Account.entries.any(Entry.amount > 100)).order_by(Account.id),
    scalar_subquery=select(Account.id, select(func.max(Entry.amount)).where(Entry.account_id == Account.id).scalar_subquery()).order_by(Account.id),
    window=select(Entry.number, func.row_number().over(partition_by=Entry.account_id, order_by=Entry.number.desc())).where(Entry.number < 50).order_by(Entry.number),
    derived_table=select(Account.name, Entry.day).join(latest, latest.c.account_id == Account.id).join(
        Entry, sa.and_(Entry.account_id == Account.id, Entry.number == latest.c.last)).order_by(Account.id),
    self_join=select(func.count()).select_from(Entry).join(other, sa.and_(other.day == Entry.day, other.number > Entry.number)),
    recursive=select(tree).order_by(tree.c.id),
    union=select(Account.id).union(select(Entry.number)).order_by(sa.text('1')).limit(9),
    enumeration=select(Entry.state, func.count()).group_by(Entry.state).order_by(Entry.state),
    arrays=select(Entry.number).where(Entry.words.any('w3')).order_by(Entry.number).limit(5),
    arrays_contain=select(func.count()).where(Entry.words.contains(['w1', "it's"])),
    json=select(Entry.number, Entry.detail['even'].astext).where(Entry.detail['n'].astext.cast(sa.Integer) < 6).order_by(Entry.number),
    json_contains=select(func.count()).where(Entry.detail.contains({'even': True})),
    lateral=select(Person.name, sa.text('n')).select_from(Person).join(
        select(func.count().label('n')).where(Account.owner == Person.id).lateral('l'), sa.true()).order_by(Person.id),
    pages=lambda session: [[e.number for e in session.scalars(select(Entry).order_by(Entry.day, Entry.number).offset(k).limit(7))] for k in (0, 250)],
    rollup=select(Entry.state, sa.extract('month', Entry.day), func.count()).group_by(func.rollup(Entry.state, sa.extract('month', Entry.day))).order_by(
        Entry.state, sa.extract('month', Entry.day)),
    stream=lambda session: sum(e.number for e in session.scalars(select(Entry).execution_options(stream_results=True, yield_per=64))),
    legacy_query=lambda session: session.query(Entry).filter(Entry.amount.between(10, 12)).order_by(Entry.number.desc()).first().number)


@step
def unit_of_work():
    with Session(engine) as session:
        account = session.get(Account, 7)
        account.name = 'renamed'
        account.entries[0].amount += 1
        account.entries.append(Entry(number=9000, amount=3, day=datetime.date(2026, 2, 2)))
        account.entries.remove(account.entries[1])
        session.commit()
        return account.version, len(account.entries), account.entries[0].amount


@step
def cascade():
    with Session(engine) as session:
        session.delete(session.get(Account, 8))
        session.commit()
    return rows(select(func.count()).where(Entry.account_id == 8))


@step
def stale_version():
    with Session(engine) as one, Session(engine) as two:
        mine, yours = one.get(Account, 9), two.get(Account, 9)
        mine.name = 'mine'
        one.commit()
        yours.name = 'yours'
        try:
            two.commit()
        except sa.orm.exc.StaleDataError:
            return 'stale', rows(select(Account.name).where(Account.id == 9))


@step
def savepoints():
    with Session(engine) as session:
        session.add(Person(name='one more'))
        session.flush()
        try:
            with session.begin_nested():
                session.add(Person(name='one more'))
        except sa.exc.IntegrityError as error:
            found = error.orig.pgcode
        session.commit()
    return found, rows(select(func.count(), func.max(Person.id)).where(Person.name == 'one more'))


@step
def update_and_delete():
    with engine.begin() as connection:
        counts = [connection.execute(statement).rowcount for statement in (
            sa.update(Entry).where(Entry.number.between(20, 30)).values(amount=Entry.amount * 2, words=func.array_append(Entry.words, 'x')),
            sa.update(Entry).where(Entry.account_id == Account.id, Account.name == 'account 10').values(detail={'from': 'join'}),
            sa.update(Account).where(Account.id.in_(select(Entry.account_id).where(Entry.number < 3))).values(name=Account.name + '+', version=Account.version + 1),
            sa.delete(Entry).where(Entry.state == State.new, Entry.number > 560),
            sa.update(Person).where(Person.name.like('person%')).values(name=func.upper(Person.name)))]
        counts.append(sorted(list(row) for row in connection.execute(
            sa.update(Entry).where(Entry.account_id == 4).values(day=sa.bindparam('d')).returning(Entry.number, Entry.day), {'d': datetime.date(2026, 9, 9)})))
    return counts


@step
def execute_many():
    with engine.begin() as connection:
        connection.execute(sa.update(Entry).where(Entry.account_id == sa.bindparam('a'), Entry.number == sa.bindparam('n')).values(amount=sa.bindparam('m')),
                           [{'a': 1 + i % 40, 'n': i, 'm': Decimal(i)} for i in range(50, 90)])
    return rows(select(func.sum(Entry.amount)))


@step
def for_update():
    with Session(engine) as session:
        return [e.number for e in session.scalars(select(Entry).where(Entry.account_id == 3).order_by(Entry.number).limit(4).with_for_update(skip_locked=True))]


@step
def insert_from_select():
    with engine.begin() as connection:
        count = connection.execute(sa.insert(Entry).from_select(
            ['account_id', 'number', 'amount', 'state', 'day'], select(Entry.account_id, Entry.number + 20000, Entry.amount, Entry.state, Entry.day).where(Entry.number < 100))).rowcount
    return count, rows(select(func.count(), func.sum(Entry.amount)))


@step
def refused_check():
    with engine.begin() as connection:
        connection.execute(sa.insert(Entry).values(entry(1, number=99999, amount=0)))


@step
def refused_twice():
    with engine.begin() as connection:
        connection.execute(sa.insert(Entry).values(entry(1)))


@step
def refused_account():
    with engine.begin() as connection:
        connection.execute(sa.insert(Entry).values(entry(1, account_id=4711)))


@step
def isolation_levels():
    result = []
    for level in 'REPEATABLE READ', 'READ COMMITTED', 'AUTOCOMMIT':
        with engine.connect().execution_options(isolation_level=level) as connection:
            result.append(connection.execute(select(func.count()).select_from(Account)).scalar())
    return result


# alembic
@step
def add_columns():
    def change(op):
        op.add_column('entries', sa.Column('fee', sa.Numeric(6, 2), server_default='0.25', nullable=False))
        op.add_column('entries', sa.Column('note', sa.Text, comment='as the customer wrote it'))
        op.add_column('accounts', sa.Column('kind', sa.Enum('private', 'company', name='kind'), server_default='private'))
        op.add_column('accounts', sa.Column('person', sa.BigInteger, sa.ForeignKey('people.id', name='person_of_account')))
    sa.Enum('private', 'company', name='kind').create(engine)
    migrate(change)
    return rows(sa.text("SELECT fee, note, kind, count(*) FROM entries JOIN accounts ON id = account_id GROUP BY 1, 2, 3"))


@step
def alter_columns():
    def change(op):
        op.alter_column('accounts', 'name', type_=sa.String(80), existing_nullable=False)
        op.alter_column('entries', 'amount', type_=sa.Numeric(14, 4))
        op.alter_column('entries', 'note', server_default='-')
        op.execute("UPDATE entries SET note = 'old' WHERE note IS NULL")
        op.alter_column('entries', 'note', nullable=False)
        op.alter_column('entries', 'note', new_column_name='remark')
        op.alter_column('accounts', 'kind', type_=sa.Text, postgresql_using='kind::text', server_default=None)
    migrate(change)
    return rows(sa.text("SELECT kind, remark, sum(amount) FROM entries JOIN accounts ON id = account_id GROUP BY 1, 2"))


@step
def indexes_and_constraints():
    def change(op):
        op.create_index('by_words', 'entries', ['words'], postgresql_using='gin')
        op.create_index('big_ones', 'entries', [sa.text('amount DESC')], postgresql_where=sa.text('amount > 50'))
        op.create_unique_constraint('one_reference', 'entries', ['account_id', 'number', 'reference'])
        op.create_check_constraint('fee_is_small', 'entries', 'fee < 100')
        op.create_foreign_key('second_key', 'accounts', 'people', ['owner'], ['id'], ondelete='SET NULL')
        op.drop_index('by_day', 'entries')
        op.drop_constraint('one_reference', 'entries')
        op.drop_constraint('fee_is_small', 'entries')
        op.drop_constraint('second_key', 'accounts', type_='foreignkey')
        op.create_table_comment('entries', 'all of them')
    migrate(change)


@step
def index_concurrently():
    with engine.connect().execution_options(isolation_level='AUTOCOMMIT') as connection:
        op = Operations(MigrationContext.configure(connection))
        op.create_index('later', 'entries', ['day'], postgresql_concurrently=True)
        op.drop_index('later', 'entries', postgresql_concurrently=True)


@step
def rename_table():
    migrate(lambda op: op.rename_table('entries', 'bookings'))
    result = rows(sa.text('SELECT count(*), sum(fee) FROM bookings'))
    migrate(lambda op: op.rename_table('bookings', 'entries'))
    return result


@step
def drop_columns():
    def change(op):
        op.drop_column('entries', 'fee')
        op.drop_column('entries', 'remark')
        op.drop_column('accounts', 'kind')
        op.drop_column('accounts', 'person')
        op.execute('DROP TYPE kind')
    migrate(change)
    return rows(sa.text('SELECT * FROM entries WHERE number < 3 ORDER BY number'))


@step
def inspect_columns():
    return {table: [(c['name'], str(c['type']), c['nullable'], c['default'], c.get('identity')) for c in sa.inspect(engine).get_columns(table)] for table in ('accounts', 'people', 'entries')}


@step
def inspect_keys():
    inspector = sa.inspect(engine)
    return [(inspector.get_pk_constraint(table), inspector.get_foreign_keys(table), inspector.get_indexes(table)) for table in ('accounts', 'people', 'entries')]


@step
def inspect_tables():
    return sorted(sa.inspect(engine).get_table_names()), sa.inspect(engine).has_table('entries')


@step
def autogenerate():
    with engine.connect() as connection:
        return [str(change[0]) for change in compare_metadata(MigrationContext.configure(connection), Base.metadata)]


@step
def autogenerate_others():
    options = {'include_object': lambda thing, name, kind, reflected, other: kind != 'table' or name not in Base.metadata.tables}
    with engine.connect() as connection:
        return [str(change[0]) for change in compare_metadata(MigrationContext.configure(connection, opts=options), Base.metadata)]


@step
def reflect():
    table = sa.Table('entries', sa.MetaData(), autoload_with=engine)
    return [column.name for column in table.columns], rows(select(func.count()).select_from(table))


@step
def drop_all():
    Base.metadata.drop_all(engine)
    return sorted(sa.inspect(engine).get_table_names())


@step
def create_again():
    Base.metadata.create_all(engine)
    Base.metadata.drop_all(engine)
