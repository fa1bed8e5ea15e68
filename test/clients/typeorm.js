// typeorm.js: entities, synchronize, migrations and repositories of TypeORM.
const { step, own, connection } = require('./steps');
require('reflect-metadata');
const { DataSource, EntitySchema, Table, TableColumn, TableIndex, TableForeignKey, TableUnique, TableCheck, In, LessThan, ILike, Not, IsNull } = require('typeorm');

const City = new EntitySchema({ name: 'City', tableName: 'cities', columns: { code: { type: 'varchar', length: 4, primary: true }, name: { type: 'text', unique: true } } });
const Guest = new EntitySchema({
	name: 'Guest', tableName: 'guests',
	columns: {
		id: { type: 'int', primary: true, generated: true },
		name: { type: 'varchar', length: 40 },
		mood: { type: 'enum', enum: ['good', 'bad'], default: 'good' },
		created: { type: 'timestamptz', createDate: true },
		deleted: { type: 'timestamptz', deleteDate: true, nullable: true },
		version: { type: 'int', version: true }
	},
	relations: { city: { type: 'many-to-one', target: 'City', joinColumn: { name: 'city' }, nullable: true }, stays: { type: 'one-to-many', target: 'Stay', inverseSide: 'guest' } },
	indices: [{ name: 'guest_names', columns: ['name'] }]
});
const Stay = new EntitySchema({
	name: 'Stay', tableName: 'stays',
	columns: {
		guestId: { type: 'int', primary: true, name: 'guest' },
		number: { type: 'int', primary: true },
		price: { type: 'numeric', precision: 10, scale: 2, nullable: true },
		facts: { type: 'jsonb', default: {} },
		words: { type: 'text', array: true, nullable: true }
	},
	relations: { guest: { type: 'many-to-one', target: 'Guest', joinColumn: { name: 'guest' }, onDelete: 'CASCADE', inverseSide: 'stays' } }
});

class Distribute1700000000001 {
	name = 'Distribute1700000000001';
	up(runner) { return runner.query(own('distribute', "SELECT * FROM rdma.distribute_tables('nodes', '{guests,stays}', '{id,guest}', replicated => '{cities}')")); }
	down(runner) { return runner.query(own('distribute', "SELECT * FROM rdma.undistribute_tables('{guests,stays,cities}')")); }
}
class Change1700000000002 {
	name = 'Change1700000000002';
	async up(runner) {
		await runner.addColumn('stays', new TableColumn({ name: 'note', type: 'text', default: "'-'", isNullable: false }));
		await runner.query('ALTER TABLE "stays" ALTER COLUMN "price" TYPE numeric(14,4)');
		await runner.createIndex('stays', new TableIndex({ name: 'by_price', columnNames: ['price'], where: 'price > 5' }));
		await runner.query('ALTER TABLE "stays" ADD COLUMN "agent" varchar(4)');
		await runner.query('ALTER TABLE "stays" ADD CONSTRAINT "agent_city" FOREIGN KEY ("agent") REFERENCES "cities"("code") ON DELETE SET NULL');
		await runner.query('ALTER TABLE "stays" RENAME COLUMN "note" TO "remark"');
		await runner.query('COMMENT ON COLUMN "stays"."remark" IS \'what guests say\'');
	}
	async down(runner) {
		await runner.query('ALTER TABLE "stays" DROP CONSTRAINT "agent_city"');
		await runner.query('ALTER TABLE "stays" DROP COLUMN "agent"');
		await runner.query('DROP INDEX "public"."by_price"');
		await runner.query('ALTER TABLE "stays" DROP COLUMN "remark"');
	}
}
const options = { ...connection, username: connection.user, type: 'postgres', entities: [City, Guest, Stay] };
let source = new DataSource({ ...options, migrations: [Distribute1700000000001] });
const stay = (i) => ({ guestId: 1 + i % 25, number: i, price: i / 2, facts: { n: i }, words: [`w${i % 3}`, "it's"] });

(async () => {
	await source.initialize();
	const [cities, guests, stays] = ['City', 'Guest', 'Stay'].map((name) => source.getRepository(name));
	await step('synchronize', () => source.synchronize());
	await step('distribute', async () => (await source.runMigrations()).map((m) => m.name));
	await step('back_and_forth', async () => { await source.undoLastMigration(); return (await source.runMigrations()).map((m) => m.name); });
	await step('save', async () => {
		await cities.save([{ code: 'v', name: 'Vienna' }, { code: 'g', name: 'Graz' }]);
		const saved = await guests.save(Array.from({ length: 25 }, (_, i) => ({ name: `guest ${i}`, city: i % 3 ? { code: 'vg'[i % 2] } : null, mood: i % 4 ? 'good' : 'bad' })));
		await stays.save(Array.from({ length: 60 }, (_, i) => stay(i)), { chunk: 20 });
		return saved.map((guest) => [guest.id, guest.version]);
	});
	await step('insert', async () => (await stays.insert(Array.from({ length: 140 }, (_, i) => stay(60 + i)))).identifiers.length);
	await step('find', () => stays.find({ where: { number: LessThan(5) }, order: { number: 'DESC' } }));
	await step('relations', async () => (await guests.find({ relations: { city: true, stays: true }, where: { id: In([1, 2, 3]), city: { code: Not(IsNull()) } }, order: { id: 'ASC', stays: { number: 'ASC' } } }))
		.map((guest) => [guest.name, guest.city.name, guest.stays.map((s) => s.number)]));
	await step('pages', async () => { const [rows, count] = await guests.findAndCount({ relations: { stays: true }, take: 4, skip: 3, order: { id: 'ASC' } }); return [count, rows.map((guest) => [guest.id, guest.stays.length])]; });
	await step('query_builder', () => guests.createQueryBuilder('g').innerJoin('g.stays', 's').leftJoin('g.city', 'c').where('s.price > :p', { p: 20 }).groupBy('c.name').orderBy('c.name')
		.select('c.name', 'name').addSelect('count(*)', 'n').addSelect('sum(s.price)', 'sum').getRawMany());
	await step('subquery', async () => (await guests.createQueryBuilder('g').where((q) => 'g.id IN ' + q.subQuery().select('s.guest').from('Stay', 's').where('s.number < 4').getQuery()).orderBy('g.id').getMany()).map((g) => g.name));
	await step('patterns', () => guests.countBy({ name: ILike('GUEST 1%') }));
	await step('aggregates', async () => [await stays.sum('price'), await stays.maximum('number'), await stays.average('price', { guestId: 3 })]);
	await step('stream', async () => { let sum = 0; for await (const row of await stays.createQueryBuilder('s').select('s.number', 'n').stream()) sum += row.n; return sum; });
	await step('upsert', async () => { await stays.upsert([{ ...stay(4), price: 99 }, stay(900)], ['guestId', 'number']); return stays.find({ where: { number: In([4, 900]) }, order: { number: 'ASC' } }); });
	await step('or_update', () => stays.createQueryBuilder().insert().values({ ...stay(5), price: 98 }).orUpdate(['price'], ['guest', 'number']).returning(['number', 'price']).execute().then((r) => r.raw));
	await step('or_ignore', () => cities.createQueryBuilder().insert().values([{ code: 'v', name: 'x' }, { code: 'l', name: 'Linz' }]).orIgnore().execute().then(() => cities.count()));
	await step('update', async () => [(await stays.update({ guestId: 6 }, { price: () => 'price * 2' })).affected, (await stays.increment({ number: LessThan(10) }, 'price', 1)).affected, await stays.sum('price')]);
	await step('versions', async () => { const guest = await guests.findOneBy({ id: 4 }); guest.name = 'changed'; await guests.save(guest); return [guest.version, (await guests.findOneBy({ id: 4 })).name]; });
	await step('transactions', async () => source.transaction('REPEATABLE READ', async (manager) => {
		await manager.update('Guest', 1, { name: 'outer' });
		const state = await manager.transaction((inner) => inner.insert('City', { code: 'v', name: 'again' })).catch((error) => error.code);
		const locked = await manager.findOne('Guest', { where: { id: 1 }, lock: { mode: 'pessimistic_write' } });
		return [state, locked.name];
	}));
	await step('refused_guest', () => stays.insert({ ...stay(1), guestId: 4711 }));
	await step('refused_twice', () => cities.insert({ code: 'x', name: 'Graz' }));
	await step('soft_delete', async () => [(await guests.softDelete(3)).affected, await guests.count(), await guests.count({ withDeleted: true }), (await guests.restore(3)).affected]);
	await step('remove', async () => { await stays.remove(await stays.findBy({ guestId: 8 })); return [(await stays.delete({ number: 4 })).affected, (await guests.delete(9)).affected, await stays.count()]; });
	await source.destroy();
	source = new DataSource({ ...options, migrations: [Distribute1700000000001, Change1700000000002] });
	await source.initialize();
	await step('migrate', async () => (await source.runMigrations({ transaction: 'each' })).map((m) => m.name));
	await step('migrated', () => source.query('SELECT remark, count(*), sum(price) FROM stays GROUP BY 1'));
	await step('get_table', async () => {
		const runner = source.createQueryRunner();
		const table = await runner.getTable('stays');
		await runner.release();
		return table.columns.map((column) => [column.name, column.type, column.isNullable]);
	});
	await step('get_keys', async () => {
		const runner = source.createQueryRunner();
		const table = await runner.getTable('stays');
		await runner.release();
		return [table.primaryColumns.map((column) => column.name), table.foreignKeys.length, table.indices.length];
	});
	await step('migrate_back', () => source.undoLastMigration());
	await step('pending_changes', async () => (await source.driver.createSchemaBuilder().log()).upQueries.map((query) => query.query).filter((query) => !query.includes('numeric')));
	await step('clear', async () => { const runner = source.createQueryRunner(); await runner.clearTable('stays'); await runner.release(); return source.getRepository('Stay').count(); });
	await step('drop_tables', async () => {
		const runner = source.createQueryRunner();
		await runner.query('DROP TABLE "stays", "guests", "cities", "migrations"');
		await runner.query('DROP TYPE "guests_mood_enum"');
		await runner.release();
	});
	await source.destroy();
})();
