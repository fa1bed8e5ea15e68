// knex.js: migrations, queries and transactions of knex.
const { step, own, connection } = require('./steps');
const knex = require('knex')({ client: 'pg', connection, pool: { min: 0, max: 4 } });

const migrations = {
	'1_tables': {
		up: async (db) => {
			await db.schema.createTable('kinds', (t) => { t.string('code', 8).primary(); t.text('title').notNullable().unique(); });
			await db.schema.createTable('users', (t) => {
				t.increments('id');
				t.string('name', 40).notNullable().index();
				t.string('kind', 8).references('code').inTable('kinds');
				t.boolean('active').defaultTo(true);
				t.timestamps(true, true);
			});
			await db.schema.createTable('posts', (t) => {
				t.integer('user_id').notNullable().references('users.id').onDelete('CASCADE');
				t.integer('number').notNullable();
				t.text('body');
				t.jsonb('meta').defaultTo('{}');
				t.decimal('price', 10, 2);
				t.specificType('words', 'text[]');
				t.primary(['user_id', 'number']);
			});
		},
		down: (db) => db.schema.dropTable('posts').dropTable('users').dropTable('kinds')
	},
	'2_distribute': {
		up: (db) => db.raw(own('distribute', "SELECT * FROM rdma.distribute_tables('nodes', '{users,posts}', '{id,user_id}', replicated => '{kinds}')")),
		down: (db) => db.raw(own('distribute', "SELECT * FROM rdma.undistribute_tables('{users,posts,kinds}')"))
	},
	'3_change': {
		up: async (db) => {
			await db.schema.alterTable('posts', (t) => {
				t.string('state', 12).notNullable().defaultTo('draft');
				t.integer('votes').defaultTo(0).index('by_votes');
				t.string('reviewer', 8).references('kinds.code');
				t.decimal('price', 14, 4).alter();
				t.text('body').notNullable().defaultTo('').alter();
				t.unique(['user_id', 'number', 'state'], { indexName: 'one_state' });
				t.index(['meta'], 'by_meta', 'gin');
				t.check('votes > -5', [], 'few_votes');
			});
			await db.schema.alterTable('users', (t) => { t.bigInteger('visits').defaultTo(0); t.dropNullable('active'); });
		},
		down: () => {}
	},
	'4_less': {
		up: (db) => db.schema.alterTable('posts', (t) => {
			t.dropIndex([], 'by_votes');
			t.dropUnique([], 'one_state');
			t.dropChecks('few_votes');
			t.dropForeign('reviewer');
			t.dropColumn('reviewer');
			t.setNullable('body');
			t.renameColumn('votes', 'stars');
		}).renameTable('posts', 'articles'),
		down: (db) => db.schema.renameTable('articles', 'posts')
	}
};
// up to the migration of this number
const source = (last) => ({
	getMigrations: async () => Object.keys(migrations).slice(0, last),
	getMigrationName: (name) => name,
	getMigration: async (name) => ({ ...migrations[name] })
});
const post = (i) => ({ user_id: 1 + i % 30, number: i, body: `post ${i}`, meta: { n: i, odd: i % 2 === 1 }, price: i / 4, words: [`w${i % 5}`, "it's"] });

(async () => {
	await step('migrate_first', () => knex.migrate.latest({ migrationSource: source(1) }));
	await step('distribute', () => knex.migrate.latest({ migrationSource: source(2) }));
	await step('back_and_forth', async () => [await knex.migrate.down({ migrationSource: source(2) }), await knex.migrate.up({ migrationSource: source(2) })]);
	await step('insert', async () => {
		await knex('kinds').insert([{ code: 'a', title: 'first' }, { code: 'b', title: 'second' }]);
		return knex('users').insert(Array.from({ length: 30 }, (_, i) => ({ name: `user ${i}`, kind: i % 3 ? 'ab'[i % 2] : null, active: i % 4 > 0 }))).returning('id');
	});
	await step('batch_insert', async () => (await knex.batchInsert('posts', Array.from({ length: 300 }, (_, i) => post(i)), 70).returning(['number'])).length);
	await step('select', () => knex('posts').where('number', '<', 8).whereIn('user_id', [1, 2, 3, 4]).orderBy('number'));
	await step('join', () => knex('users as u').leftJoin('kinds as k', 'k.code', 'u.kind').join('posts as p', 'p.user_id', 'u.id').groupBy('k.title').orderBy('k.title')
		.select('k.title').count('*').sum('p.price'));
	await step('having', () => knex('posts').groupBy('user_id').havingRaw('sum(price) > ?', [390]).select('user_id').avg('price as mean').orderBy('user_id'));
	await step('with', () => knex.with('big', knex('posts').where('price', '>', 60)).from('big').count('*').countDistinct('user_id as users'));
	await step('exists', () => knex('users').whereExists(knex('posts').whereRaw('posts.user_id = users.id').where('number', 17)).pluck('name'));
	await step('json', () => knex('posts').whereJsonPath('meta', '$.n', '<', 5).orderBy('number').select(knex.jsonExtract('meta', '$.odd', 'odd'), 'number'));
	await step('union', () => knex('users').select('id').where('id', '<', 4).union(knex('posts').select('number').where('number', '<', 6)).orderBy('id'));
	await step('window', () => knex('posts').where('number', '<', 90).rowNumber('place', (t) => t.orderBy('number', 'desc').partitionBy('user_id')).select('number').orderBy('number').limit(5));
	await step('stream', async () => {
		let sum = 0;
		for await (const row of knex('posts').select('number').stream({ highWaterMark: 16 })) sum += row.number;
		return sum;
	});
	await step('paginate', () => knex('posts').orderBy('number', 'desc').offset(20).limit(3).pluck('number'));
	await step('on_conflict_merge', () => knex('posts').insert([post(5), { ...post(6), price: 100 }, post(900)]).onConflict(['user_id', 'number']).merge(['price']).returning(['number', 'price']));
	await step('on_conflict_ignore', () => knex('posts').insert([post(5), post(901)]).onConflict().ignore());
	await step('update', async () => [await knex('posts').where('number', '<', 20).update({ price: knex.raw('price * 2') }), await knex('posts').where({ user_id: 3 }).increment('price', 5),
		await knex('users').where('id', 4).update({ name: 'changed' }, ['id', 'name', 'active']), await knex('posts').sum('price')]);
	await step('transactions', async () => {
		const found = [];
		await knex.transaction(async (trx) => {
			await trx('users').where('id', 1).update({ name: 'outer' });
			await trx.transaction(async (inner) => {
				await inner('users').where('id', 2).update({ name: 'inner' });
				await inner('kinds').insert({ code: 'a', title: 'again' });
			}).catch((error) => found.push(error.code));
			found.push(await trx('users').whereIn('id', [1, 2]).orderBy('id').pluck('name'));
			found.push(await trx('posts').where('user_id', 5).orderBy('number').forUpdate().skipLocked().limit(3).pluck('number'));
		}, { isolationLevel: 'read committed' });
		return found;
	});
	await step('refused_user', () => knex('posts').insert({ ...post(1), user_id: 4711 }));
	await step('refused_twice', () => knex('kinds').insert({ code: 'z', title: 'first' }));
	await step('delete', async () => [await knex('posts').where('number', '>', 250).del(), await knex('users').where('id', 7).del('id'), await knex('posts').count('*')]);
	await step('migrate_third', () => knex.migrate.latest({ migrationSource: source(3) }));
	await step('changed', () => knex('posts').select('state', 'votes', 'price').where('number', 12));
	await step('migrate_fourth', () => knex.migrate.latest({ migrationSource: source(4) }));
	await step('renamed', () => knex('articles').sum('stars').max('price').count('body'));
	await step('column_info', () => knex('articles').columnInfo());
	await step('has', async () => [await knex.schema.hasTable('articles'), await knex.schema.hasTable('posts'), await knex.schema.hasColumn('articles', 'stars')]);
	await step('truncate', async () => { await knex('articles').truncate(); return knex('articles').count('*'); });
	await step('rollback_all', () => knex.migrate.rollback({ migrationSource: source(4) }, true));
	await step('drop', () => knex.schema.dropTable('knex_migrations').dropTable('knex_migrations_lock'));
	await knex.destroy();
})();
