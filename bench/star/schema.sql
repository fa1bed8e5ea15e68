-- schema.sql: a retailer's 24 tables, without keys (keys.sql adds them after loading): three channels (shops, web, mail order by
-- catalogue), each with sales and returns, stock of the warehouses, and what they refer to. data.sql fills them.

-- facts: a line of a ticket or order, and of what came back of it
CREATE TABLE shop_sale (
	ss_ticket bigint NOT NULL,
	ss_line int NOT NULL,
	ss_day int,
	ss_minute int,
	ss_item int NOT NULL,
	ss_customer int,
	ss_demographics int,
	ss_household int,
	ss_address int,
	ss_shop int,
	ss_promotion int,
	ss_quantity int NOT NULL,
	ss_cost numeric(9,2) NOT NULL,
	ss_list numeric(9,2) NOT NULL,
	ss_price numeric(9,2) NOT NULL,
	ss_coupon numeric(9,2) NOT NULL,
	ss_paid numeric(9,2) NOT NULL,
	ss_profit numeric(9,2) NOT NULL
);
CREATE TABLE shop_return (
	sr_ticket bigint NOT NULL,
	sr_line int NOT NULL,
	sr_day int NOT NULL,
	sr_item int NOT NULL,
	sr_customer int,
	sr_shop int,
	sr_reason int,
	sr_quantity int NOT NULL,
	sr_amount numeric(9,2) NOT NULL,
	sr_loss numeric(9,2) NOT NULL
);
CREATE TABLE web_sale (
	ws_order bigint NOT NULL,
	ws_line int NOT NULL,
	ws_day int,
	ws_ship_day int,
	ws_minute int,
	ws_item int NOT NULL,
	ws_customer int,
	ws_household int,
	ws_address int,
	ws_site int,
	ws_page int,
	ws_shipping int,
	ws_warehouse int,
	ws_promotion int,
	ws_quantity int NOT NULL,
	ws_cost numeric(9,2) NOT NULL,
	ws_list numeric(9,2) NOT NULL,
	ws_price numeric(9,2) NOT NULL,
	ws_discount numeric(9,2) NOT NULL,
	ws_paid numeric(9,2) NOT NULL,
	ws_freight numeric(9,2) NOT NULL,
	ws_profit numeric(9,2) NOT NULL
);
CREATE TABLE web_return (
	wr_order bigint NOT NULL,
	wr_line int NOT NULL,
	wr_day int NOT NULL,
	wr_item int NOT NULL,
	wr_customer int,
	wr_address int,
	wr_page int,
	wr_reason int,
	wr_quantity int NOT NULL,
	wr_amount numeric(9,2) NOT NULL,
	wr_loss numeric(9,2) NOT NULL
);
CREATE TABLE mail_sale (
	ms_order bigint NOT NULL,
	ms_line int NOT NULL,
	ms_day int,
	ms_ship_day int,
	ms_item int NOT NULL,
	ms_customer int,
	ms_demographics int,
	ms_household int,
	ms_address int,
	ms_call_centre int,
	ms_page int,
	ms_shipping int,
	ms_warehouse int,
	ms_promotion int,
	ms_quantity int NOT NULL,
	ms_cost numeric(9,2) NOT NULL,
	ms_list numeric(9,2) NOT NULL,
	ms_price numeric(9,2) NOT NULL,
	ms_discount numeric(9,2) NOT NULL,
	ms_paid numeric(9,2) NOT NULL,
	ms_freight numeric(9,2) NOT NULL,
	ms_profit numeric(9,2) NOT NULL
);
CREATE TABLE mail_return (
	mr_order bigint NOT NULL,
	mr_line int NOT NULL,
	mr_day int NOT NULL,
	mr_item int NOT NULL,
	mr_customer int,
	mr_address int,
	mr_call_centre int,
	mr_page int,
	mr_reason int,
	mr_quantity int NOT NULL,
	mr_amount numeric(9,2) NOT NULL,
	mr_loss numeric(9,2) NOT NULL
);
CREATE TABLE stock (
	st_item int NOT NULL,
	st_warehouse int NOT NULL,
	st_day int NOT NULL,
	st_quantity int
);

-- large dimensions
CREATE TABLE item (
	i_id int NOT NULL,
	i_code text NOT NULL,
	i_name text NOT NULL,
	i_brand text NOT NULL,
	i_class text NOT NULL,
	i_category text NOT NULL,
	i_maker int NOT NULL,
	i_manager int NOT NULL,
	i_size text NOT NULL,
	i_colour text NOT NULL,
	i_unit text NOT NULL,
	i_price numeric(9,2) NOT NULL,
	i_cost numeric(9,2) NOT NULL
);
CREATE TABLE customer (
	c_id int NOT NULL,
	c_code text NOT NULL,
	c_demographics int,
	c_household int,
	c_address int,
	c_first text,
	c_last text,
	c_preferred boolean,
	c_birth_year int,
	c_birth_month int,
	c_country text,
	c_email text
);
CREATE TABLE address (
	a_id int NOT NULL,
	a_street text NOT NULL,
	a_city text NOT NULL,
	a_county text NOT NULL,
	a_state text NOT NULL,
	a_zip text NOT NULL,
	a_zone int NOT NULL,
	a_kind text NOT NULL
);

-- small dimensions
CREATE TABLE day (
	d_id int NOT NULL,
	d_date date NOT NULL,
	d_year int NOT NULL,
	d_quarter int NOT NULL,
	d_month int NOT NULL,
	d_month_count int NOT NULL,
	d_week_count int NOT NULL,
	d_weekday int NOT NULL,
	d_name text NOT NULL,
	d_holiday boolean NOT NULL
);
CREATE TABLE minute (
	t_id int NOT NULL,
	t_hour int NOT NULL,
	t_minute int NOT NULL,
	t_shift text NOT NULL,
	t_meal text
);
CREATE TABLE household (
	h_id int NOT NULL,
	h_income_band int NOT NULL,
	h_potential text NOT NULL,
	h_dependants int NOT NULL,
	h_vehicles int NOT NULL
);
CREATE TABLE demographics (
	g_id int NOT NULL,
	g_gender text NOT NULL,
	g_marital text NOT NULL,
	g_education text NOT NULL,
	g_credit text NOT NULL,
	g_dependants int NOT NULL
);
CREATE TABLE income_band (
	b_id int NOT NULL,
	b_low int NOT NULL,
	b_high int NOT NULL
);
CREATE TABLE promotion (
	p_id int NOT NULL,
	p_name text NOT NULL,
	p_item int NOT NULL,
	p_post boolean NOT NULL,
	p_event boolean NOT NULL,
	p_tv boolean NOT NULL
);
CREATE TABLE shop (
	s_id int NOT NULL,
	s_name text NOT NULL,
	s_city text NOT NULL,
	s_county text NOT NULL,
	s_state text NOT NULL,
	s_zip text NOT NULL,
	s_zone int NOT NULL,
	s_employees int NOT NULL,
	s_market int NOT NULL
);
CREATE TABLE warehouse (
	w_id int NOT NULL,
	w_name text NOT NULL,
	w_area int NOT NULL,
	w_state text NOT NULL
);
CREATE TABLE site (
	x_id int NOT NULL,
	x_name text NOT NULL,
	x_company text NOT NULL
);
CREATE TABLE page (
	y_id int NOT NULL,
	y_kind text NOT NULL,
	y_characters int NOT NULL
);
CREATE TABLE call_centre (
	k_id int NOT NULL,
	k_name text NOT NULL,
	k_manager text NOT NULL,
	k_county text NOT NULL
);
CREATE TABLE catalogue_page (
	n_id int NOT NULL,
	n_catalogue int NOT NULL,
	n_number int NOT NULL,
	n_kind text NOT NULL
);
CREATE TABLE shipping (
	m_id int NOT NULL,
	m_kind text NOT NULL,
	m_carrier text NOT NULL
);
CREATE TABLE reason (
	r_id int NOT NULL,
	r_text text NOT NULL
);
