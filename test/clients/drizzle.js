// drizzle.js: drizzle-kit writes the migrations from schemas, drizzle-orm runs them and has the queries.
const { execFileSync } = require('child_process');
const fs = require('fs');
const { step, own, connection, server } = require('./steps');
const { drizzle } = require('drizzle-orm/node-postgres');
const { migrate } = require('drizzle-orm/node-postgres/migrator');
const { sql, eq, lt, gt, and, inArray, desc, asc, count, sum, relations, exists } = require('drizzle-orm');
const { Pool } = require('pg');

const first = `const { pgTable, pgEnum, serial, integer, text, varchar, jsonb, numeric, timestamp, primaryKey, index, boolean } = require('drizzle-orm/pg-core');
exports.mood = pgEnum('mood', ['good', 'bad']);
exports.plans = pgTable('plans', { code: varchar('code', { length: 8 }).primaryKey(), title: text('title').notNull().unique() });
exports.people = pgTable('people', { id: serial('id').primaryKey(), name: varchar('name', { length: 40 }).notNull(), mood: exports.mood('mood').default('good'),
	plan: varchar('plan', { length: 8 }).references(() => exports.plans.code), joined: timestamp('joined', { withTimezone: true }).defaultNow() }, (t) => [index('by_name').on(t.name)]);
exports.tasks = pgTable('tasks', { person: integer('person').notNull().references(() => exports.people.id, { onDelete: 'cascade' }), number: integer('number').notNull(), title: text('title'),
	cost: numeric('cost', { precision: 10, scale: 2 }), facts: jsonb('facts') }, (t) => [primaryKey({ columns: [t.person, t.number] })]);
`;
const second = first.replace("title: text('title'),", "title: varchar('title', { length: 80 }).notNull().default('-'), done: boolean('done').notNull().default(false), level: integer('level').default(1),\n\tplan: varchar('plan', { length: 8 }).references(() => exports.plans.code),")
	.replace("precision: 10, scale: 2", "precision: 14, scale: 4").replace("columns: [t.person, t.number] })]", "columns: [t.person, t.number] }), index('by_cost').on(t.cost.desc()), index('by_facts').using('gin', t.facts)]")
	.replace(", (t) => [index('by_name').on(t.name)]", '').replace("['good', 'bad']", "['good', 'bad', 'so so']");
const third = second.replace(" level: integer('level').default(1),", '').replace("index('by_cost').on(t.cost.desc()), ", '').replace(".notNull().default('-')", '');

const kit = require('path').join(require('path').dirname(require.resolve('drizzle-kit')), 'bin.cjs');

// generate NAME SCHEMA: what drizzle-kit writes
function generate(name, schema) {
	fs.writeFileSync('schema.js', schema);
	execFileSync(process.execPath, [kit, 'generate', '--dialect=postgresql', '--schema=./schema.js', '--out=./drizzle', `--name=${name}`], { encoding: 'utf8' });
}
function custom(name, text) {
	execFileSync(process.execPath, [kit, 'generate', '--custom', '--dialect=postgresql', '--schema=./schema.js', '--out=./drizzle', `--name=${name}`], { encoding: 'utf8' });
	fs.writeFileSync(`drizzle/${fs.readdirSync('drizzle').find((file) => file.includes(name))}`, text);
}
const pool = new Pool(connection);
let db = drizzle(pool);
const task = (i) => ({ person: 1 + i % 20, number: i, title: `task ${i}`, cost: String(i / 4), facts: { n: i, odd: i % 2 === 1 } });
const run = () => migrate(db, { migrationsFolder: './drizzle' });

(async () => {
	await step('generate_and_migrate', async () => { generate('first', first); await run(); });
	await step('distribute', async () => {
		custom('distribute', own('distribute', "SELECT * FROM rdma.distribute_tables('nodes', '{people,tasks}', '{id,person}', replicated => '{plans}')"));
		await run();
	});
	const schema = require(process.cwd() + '/schema.js');
	const { plans, people, tasks } = schema;
	const peopleRelations = relations(people, ({ one, many }) => ({ tasks: many(tasks), plan: one(plans, { fields: [people.plan], references: [plans.code] }) }));
	const taskRelations = relations(tasks, ({ one }) => ({ person: one(people, { fields: [tasks.person], references: [people.id] }) }));
	db = drizzle(pool, { schema: { plans, people, tasks, peopleRelations, taskRelations } });
	await step('insert', async () => {
		await db.insert(plans).values([{ code: 'a', title: 'small' }, { code: 'b', title: 'large' }]);
		const ids = await db.insert(people).values(Array.from({ length: 20 }, (_, i) => ({ name: `person ${i}`, plan: i % 3 ? 'ab'[i % 2] : null, mood: i % 4 ? 'good' : 'bad' }))).returning({ id: people.id });
		return [ids, (await db.insert(tasks).values(Array.from({ length: 200 }, (_, i) => task(i)))).rowCount];
	});
	await step('select', () => db.select().from(tasks).where(and(lt(tasks.number, 6), gt(tasks.cost, '0'))).orderBy(desc(tasks.number)));
	await step('join', () => db.select({ title: plans.title, n: count(), sum: sum(tasks.cost) }).from(people).leftJoin(plans, eq(plans.code, people.plan)).innerJoin(tasks, eq(tasks.person, people.id))
		.groupBy(plans.title).orderBy(plans.title));
	await step('relations', async () => (await db.query.people.findMany({ where: lt(people.id, 4), orderBy: [asc(people.id)], with: { plan: true, tasks: { orderBy: [asc(tasks.number)], limit: 3 } } }))
		.map((person) => [person.name, person.plan?.title, person.tasks.map((t) => [t.number, t.facts])]));
	await step('find_first', async () => (await db.query.tasks.findFirst({ where: eq(tasks.number, 12), with: { person: { with: { plan: true } } } })).person.name);
	await step('with', () => { const big = db.$with('big').as(db.select({ person: tasks.person, total: sql`sum(${tasks.cost})`.as('total') }).from(tasks).groupBy(tasks.person));
		return db.with(big).select({ name: people.name, total: big.total }).from(big).innerJoin(people, eq(people.id, big.person)).orderBy(desc(big.total)).limit(4); });
	await step('exists', () => db.select({ name: people.name }).from(people).where(exists(db.select().from(tasks).where(and(eq(tasks.person, people.id), eq(tasks.number, 17))))));
	await step('json', () => db.select({ n: tasks.number }).from(tasks).where(sql`${tasks.facts}->>'odd' = 'true' and (${tasks.facts}->>'n')::int < 8`).orderBy(tasks.number));
	await step('prepared', async () => { const prepared = db.select().from(tasks).where(and(eq(tasks.person, sql.placeholder('p')), lt(tasks.number, 60))).orderBy(tasks.number).prepare('of_person');
		const found = []; for (let p = 1; p < 12; p++) found.push((await prepared.execute({ p })).length); return found; });
	await step('count', () => db.$count(tasks, gt(tasks.cost, '20')));
	await step('upsert', async () => { const change = db.insert(tasks).values([{ ...task(4), cost: '99' }, task(900)]).onConflictDoUpdate({ target: [tasks.person, tasks.number], set: { cost: sql`excluded.cost` } });
		return change.returning({ number: tasks.number, cost: tasks.cost }); });
	await step('on_conflict_do_nothing', async () => (await db.insert(tasks).values([task(5), task(901)]).onConflictDoNothing()).rowCount);
	await step('update', async () => [(await db.update(tasks).set({ cost: sql`${tasks.cost} * 2` }).where(lt(tasks.number, 10))).rowCount, await db.update(people).set({ name: 'changed' }).where(eq(people.id, 3)).returning({ name: people.name }),
		await db.select({ s: sum(tasks.cost) }).from(tasks), (await db.update(tasks).set({ title: people.name }).from(people).where(and(eq(people.id, tasks.person), eq(people.mood, 'bad')))).rowCount]);
	await step('transactions', () => db.transaction(async (tx) => {
		await tx.update(people).set({ name: 'outer' }).where(eq(people.id, 1));
		const state = await tx.transaction((inner) => inner.insert(plans).values({ code: 'a', title: 'again' })).catch((error) => (error.cause ?? error).code);
		return [state, (await tx.select({ name: people.name }).from(people).where(inArray(people.id, [1])).for('update', { skipLocked: true }))];
	}, { isolationLevel: 'read committed' }));
	await step('refused_person', () => db.insert(tasks).values({ ...task(1), person: 4711 }));
	await step('refused_twice', () => db.insert(plans).values({ code: 'x', title: 'small' }));
	await step('delete', async () => [(await db.delete(tasks).where(gt(tasks.number, 180))).rowCount, await db.delete(people).where(eq(people.id, 7)).returning({ id: people.id }), await db.$count(tasks)]);
	await step('migrate_second', async () => { generate('second', second); await run(); return (await db.execute(sql`SELECT title, done, level, sum(cost) FROM tasks WHERE number < 3 GROUP BY 1, 2, 3 ORDER BY 1`)).rows; });
	await step('new_value', async () => (await db.execute(sql`UPDATE people SET mood = 'so so' WHERE id = 2 RETURNING mood`)).rows);
	await step('migrate_third', async () => { generate('third', third); await run(); return (await db.execute(sql`SELECT count(*), sum(cost) FROM tasks`)).rows; });
	await step('nothing_to_migrate', async () => { generate('same', third); await run(); return fs.readdirSync('drizzle').filter((file) => file.endsWith('.sql')).map((file) => file.replace(/_.*/, '')); });
	await step('introspect', () => {
		execFileSync(process.execPath, [kit, 'introspect', '--dialect=postgresql', `--url=postgres://${connection.user}:${connection.password}@${connection.host}:${connection.port}/${connection.database}`, '--out=./found'], { encoding: 'utf8' });
		return fs.readFileSync('found/schema.ts', 'utf8').match(/pgTable\("\w+"/g);
	});
	await step('drop', async () => { for (const table of ['tasks', 'people', 'plans']) await db.execute(sql.raw(`DROP TABLE ${table}`)); await db.execute(sql`DROP TYPE mood`); await db.execute(sql`DROP SCHEMA drizzle CASCADE`); });
	await pool.end();
})();
