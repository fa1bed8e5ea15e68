// sequelize.js: models of Sequelize, sync, and the query interface that its migrations use.
const { step, own, connection } = require('./steps');
const { Sequelize, DataTypes, Op, QueryTypes } = require('sequelize');
const sequelize = new Sequelize({ ...connection, username: connection.user, dialect: 'postgres', logging: false });
const db = sequelize.getQueryInterface();

const Shop = sequelize.define('shop', { code: { type: DataTypes.STRING(10), primaryKey: true }, title: { type: DataTypes.TEXT, unique: true } }, { timestamps: false });
const Client = sequelize.define('client', {
	name: { type: DataTypes.STRING(50), allowNull: false },
	email: DataTypes.STRING,
	level: { type: DataTypes.ENUM('low', 'high'), defaultValue: 'low' },
	born: DataTypes.DATEONLY
}, { indexes: [{ fields: ['email'] }, { name: 'named', unique: true, fields: ['id', 'name'] }] });
const Item = sequelize.define('item', {
	clientId: { type: DataTypes.INTEGER, primaryKey: true },
	number: { type: DataTypes.INTEGER, primaryKey: true },
	price: DataTypes.DECIMAL(10, 2),
	data: DataTypes.JSONB,
	tags: DataTypes.ARRAY(DataTypes.TEXT),
	key: { type: DataTypes.UUID, defaultValue: '8558d34a-d3c6-5881-a6e3-bf8f3e6110ea' }
}, { paranoid: true, version: true });
Client.belongsTo(Shop);
Shop.hasMany(Client);
Client.hasMany(Item, { foreignKey: 'clientId', onDelete: 'CASCADE' });
Item.belongsTo(Client, { foreignKey: 'clientId' });

const item = (i) => ({ clientId: 1 + i % 20, number: i, price: i / 2, data: { n: i, deep: { odd: i % 2 === 1 } }, tags: [`t${i % 4}`, "it's"] });
const plain = (rows) => rows.map((row) => { const { createdAt, updatedAt, deletedAt, ...rest } = row.get ? row.get({ plain: true }) : row; return rest; });

(async () => {
	await step('sync', () => sequelize.sync().then(() => 'done'));
	await step('distribute', () => sequelize.query(own('distribute',
		"SELECT * FROM rdma.distribute_tables('nodes', '{clients,items}', ARRAY['id', '\"clientId\"'], replicated => '{shops}')")).then(() => 'done'));
	await step('sync_again', () => sequelize.sync().then(() => 'done'));
	await step('bulk_create', async () => {
		await Shop.bulkCreate([{ code: 'v', title: 'Vienna' }, { code: 'g', title: 'Graz' }]);
		const clients = await Client.bulkCreate(Array.from({ length: 20 }, (_, i) => ({ name: `client ${i}`, email: `c${i % 6}@example.com`, shopCode: i % 3 ? 'vg'[i % 2] : null, born: '2000-01-0' + (1 + i % 9) })));
		await Item.bulkCreate(Array.from({ length: 200 }, (_, i) => item(i)));
		return clients.map((client) => client.id);
	});
	await step('find_all', async () => plain(await Item.findAll({ where: { number: { [Op.lt]: 6 }, price: { [Op.gte]: 1 } }, order: [['number', 'DESC']] })));
	await step('find_by_pk', async () => plain([await Client.findByPk(3)]));
	await step('include', async () => (await Client.findAll({ include: [Shop, { model: Item, where: { number: { [Op.lt]: 45 } } }], order: ['id', [Item, 'number', 'ASC']] })).map((c) => [c.name, c.shop?.title, c.items.map((i) => i.number)]));
	await step('include_with_limit', async () => (await Client.findAll({ include: Item, limit: 3, offset: 2, order: ['id'] })).map((c) => [c.id, c.items.map((i) => i.number).sort()]));
	await step('group', () => Client.findAll({ attributes: ['level', [sequelize.fn('COUNT', sequelize.col('id')), 'n']], group: 'level', raw: true }));
	await step('aggregates', async () => [await Item.sum('price'), await Item.max('number'), await Item.count({ where: { 'data.deep.odd': true } }), await Client.count({ include: [{ model: Item, required: true }], distinct: true })]);
	await step('json_and_arrays', async () => [await Item.count({ where: { tags: { [Op.contains]: ['t1'] } } }), await Item.count({ where: { data: { [Op.contains]: { n: 7 } } } })]);
	await step('find_and_count', async () => { const { count, rows } = await Item.findAndCountAll({ limit: 4, order: [['number', 'DESC']] }); return [count, rows.length]; });
	await step('upsert', async () => [(await Item.upsert({ ...item(4), price: 77 }))[0].price, (await Item.upsert(item(4000)))[0].number, (await Shop.upsert({ code: 'v', title: 'Wien' }))[0].title]);
	await step('update_on_duplicate', async () => plain(await Item.bulkCreate([{ ...item(5), price: 55 }, item(5000)], { updateOnDuplicate: ['price'] })).map((row) => [row.number, row.price]));
	await step('ignore_duplicates', async () => { await Shop.bulkCreate([{ code: 'v', title: 'x' }, { code: 'l', title: 'Linz' }], { ignoreDuplicates: true }); return Shop.count(); });
	await step('find_or_create', async () => [(await Shop.findOrCreate({ where: { code: 's' }, defaults: { title: 'Salzburg' } }))[1], (await Shop.findOrCreate({ where: { code: 's' } }))[1]]);
	await step('find_or_create_distributed', async () => [(await Item.findOrCreate({ where: { clientId: 3, number: 6000 }, defaults: { price: 1 } }))[1], (await Item.findOrCreate({ where: { clientId: 3, number: 6000 } }))[1]]);
	await step('update', async () => [(await Item.update({ price: sequelize.literal('price + 1') }, { where: { number: { [Op.lt]: 10 } } }))[0], plain((await Client.update({ level: 'high' }, { where: { id: 2 }, returning: true }))[1])]);
	await step('increment', async () => { await Item.increment({ price: 5 }, { where: { clientId: 4 } }); return Item.sum('price', { where: { clientId: 4 } }); });
	await step('versions', async () => {
		const one = await Item.findOne({ where: { number: 8 } }), two = await Item.findOne({ where: { number: 8 } });
		await one.update({ price: 3 });
		return two.update({ price: 4 }).then(() => 'both', (error) => [error.name, one.version]);
	});
	await step('transaction', async () => sequelize.transaction({ isolationLevel: 'REPEATABLE READ' }, async (transaction) => {
		await Client.update({ name: 'outer' }, { where: { id: 1 }, transaction });
		const state = await sequelize.transaction({ transaction }, (inner) => Shop.create({ code: 'v', title: 'again' }, { transaction: inner })).catch((error) => error.original.code);
		return [state, (await Client.findByPk(1, { transaction, lock: true })).name];
	}));
	await step('refused_client', () => Item.create({ ...item(1), clientId: 4711 }));
	await step('refused_twice', () => Shop.create({ code: 'x', title: 'Graz' }));
	await step('destroy', async () => [await Item.destroy({ where: { number: { [Op.gt]: 190 } } }), await Item.count(), await Item.restore({ where: { number: 195 } }), await Item.count(),
		await Item.destroy({ where: { number: 192 }, force: true }), await Client.destroy({ where: { id: 9 } }), await Item.count({ paranoid: false })]);
	await step('add_columns', async () => {
		await db.addColumn('items', 'note', { type: DataTypes.TEXT, allowNull: false, defaultValue: '-' });
		await db.addColumn('items', 'shop', { type: DataTypes.STRING(10), references: { model: 'shops', key: 'code' }, onDelete: 'SET NULL' });
		await db.addColumn('items', 'size', { type: DataTypes.ENUM('s', 'l'), defaultValue: 's' });
		return sequelize.query('SELECT note, size, count(*) FROM items GROUP BY 1, 2', { type: QueryTypes.SELECT });
	});
	await step('change_columns', async () => {
		await db.changeColumn('items', 'price', { type: DataTypes.DECIMAL(14, 4), allowNull: true });
		await db.changeColumn('items', 'note', { type: DataTypes.STRING(20), allowNull: true, defaultValue: null });
		await db.renameColumn('items', 'note', 'remark');
		return sequelize.query('SELECT sum(price), max(remark) FROM items', { type: QueryTypes.SELECT });
	});
	await step('indexes', async () => { await db.addIndex('items', ['price'], { name: 'by_price', where: { price: { [Op.gt]: 5 } } }); await db.addIndex('items', { fields: ['tags'], using: 'gin', concurrently: true, name: 'by_tags' });
		await db.removeIndex('items', 'by_price'); await db.removeIndex('items', 'by_tags'); });
	await step('constraints', async () => {
		await db.addConstraint('items', { type: 'unique', fields: ['clientId', 'number', 'key'], name: 'one_key' });
		await db.addConstraint('items', { type: 'check', fields: ['price'], where: { price: { [Op.gte]: 0 } }, name: 'not_negative' });
		await db.removeConstraint('items', 'one_key');
		await db.removeConstraint('items', 'not_negative');
	});
	await step('remove_columns', async () => { await db.removeColumn('items', 'shop'); await db.removeColumn('items', 'remark'); await db.removeColumn('items', 'size'); return Item.count(); });
	await step('describe', async () => Object.entries(await db.describeTable('items')).map(([name, column]) => [name, column.type, column.allowNull, column.defaultValue]));
	await step('describe_keys', async () => Object.entries(await db.describeTable('items')).filter(([, column]) => column.primaryKey).map(([name]) => name));
	await step('show_all_tables', async () => (await db.showAllTables()).sort());
	await step('table_exists', async () => [await db.tableExists('items'), await db.tableExists('nothing')]);
	await step('sync_alter', () => sequelize.sync({ alter: true }).then(() => 'done'));
	await step('truncate', async () => { await Item.truncate(); return Item.count(); });
	await step('drop', async () => { await sequelize.drop({ cascade: true }); await sequelize.query('DROP TYPE IF EXISTS "enum_items_size", "enum_clients_level"'); return 'done'; });
	await step('force', async () => { await sequelize.sync({ force: true }); await sequelize.drop({}); await sequelize.query('DROP TYPE IF EXISTS "enum_clients_level"'); return 'done'; });
	await sequelize.close();
})();
