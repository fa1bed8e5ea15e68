// steps.js: how the clients in JavaScript report; see README.md.
const fs = require('fs');

exports.server = process.env.RF_SERVER;
exports.connection = { host: process.env.PGHOST, port: +process.env.PGPORT, user: process.env.PGUSER, password: process.env.PGPASSWORD, database: process.env.PGDATABASE };

function line(kind, name, text) {
	fs.appendFileSync(process.env.RF_STEPS, `${kind}\t${name}\t${String(text).replace(/\s+/g, ' ')}\n`);
}

// Writes what the function returned, or its error's SQLSTATE, under the name.
exports.step = async (name, run) => {
	let result;
	try {
		result = JSON.stringify(await run()) ?? 'null';
	} catch (error) {
		const cause = error.original ?? error.driverError ?? error.cause ?? error;
		console.log(name, error);
		result = `error ${cause.code ?? error.name}` + (name.startsWith('refused_') ? '' : `: ${error.message}`);
	}
	line('step', name, result);
};

// Notes a statement that the step needs beside what the tool sends; with local tables there is none to send.
exports.own = (name, sql) => {
	if (exports.server) line('sql', name, sql);
	return exports.server ? sql : 'SELECT 1';
};
