# django.py: an application with Django. Its models change twice: makemigrations writes the migrations, migrate runs them. A
# migration of its own distributes the tables, as docs/frameworks.md says. Each stage is a process with models of its own.
import datetime
import io
import os
import subprocess
import sys
import uuid
from decimal import Decimal

from steps import own, server, step

FIRST = '''
from django.contrib.auth.models import User
from django.db import models
from django.utils import timezone

class Customer(models.Model):
    name = models.CharField(max_length=20)
    email = models.EmailField(db_index=True)
    user = models.ForeignKey(User, models.SET_NULL, null=True)
    active = models.BooleanField(default=True)
    since = models.DateTimeField(default=timezone.now)
    class Meta:
        ordering = ['id']

class Product(models.Model):
    sku = models.SlugField(unique=True)
    price = models.DecimalField(max_digits=8, decimal_places=2)

class Order(models.Model):
    key = models.UUIDField(primary_key=True)
    number = models.IntegerField()
    placed = models.DateField(db_index=True)
    product = models.ForeignKey(Product, models.PROTECT)
    detail = models.JSONField(default=dict)
    payload = models.BinaryField(null=True)
    took = models.DurationField(null=True)

class Tag(models.Model):
    word = models.CharField(max_length=10, primary_key=True)
    customers = models.ManyToManyField(Customer, related_name='tags')
'''

# Columns of other types, new columns with and without default, a foreign key, indexes, constraints, a field that goes
SECOND = FIRST.replace('max_length=20)', "max_length=100, default='nobody')").replace(
    'number = models.IntegerField()', '''number = models.BigIntegerField()
    state = models.CharField(max_length=8, choices=[('new', 'new'), ('paid', 'paid')], default='new')
    weight = models.FloatField(default=1.5)
    seller = models.ForeignKey(User, models.SET_NULL, null=True)''').replace(
    '    active = models.BooleanField(default=True)\n', '''    city = models.TextField(blank=True, default='Wien')
    note = models.TextField(null=True)
''').replace(
    "        ordering = ['id']", '''        ordering = ['id']
        indexes = [models.Index(fields=['email', '-since'], name='by_email')]
        constraints = [models.CheckConstraint(check=~models.Q(name=''), name='has_name'),
            models.UniqueConstraint(fields=['id', 'email'], name='email_of_customer')]''').replace(
    '    took = models.DurationField(null=True)\n', '''    took = models.DurationField(null=True)
    class Meta:
        constraints = [models.UniqueConstraint(fields=['key', 'number'], name='number_of_order')]
        indexes = [models.Index(fields=['state'], name='open_ones', condition=models.Q(state='new'))]
''')

# A table's name, NOT NULL, a type, an index and constraints that go, other names
THIRD = SECOND.replace("        constraints = [models.UniqueConstraint(fields=['key', 'number'], name='number_of_order')]\n", "        db_table = 'orders'\n").replace(
    'weight = models.FloatField(default=1.5)', 'weight = models.DecimalField(max_digits=10, decimal_places=3, default=0)').replace(
    'note = models.TextField(null=True)', "note = models.TextField(default='')").replace(
    "        indexes = [models.Index(fields=['email', '-since'], name='by_email')]\n", '').replace(
    "            models.UniqueConstraint(fields=['id', 'email'], name='email_of_customer')]", '        ]').replace(
    'city', 'town').replace('class Tag', 'class Label') + '''
class Visit(models.Model):
    customer = models.ForeignKey(Customer, models.CASCADE)
    day = models.DateField(auto_now_add=True)
'''

DISTRIBUTE = '''
from django.db import migrations

class Migration(migrations.Migration):
    dependencies = [('shop', '0001_initial')]
    operations = [migrations.RunSQL(%r, %r)]
'''
RENAME = '''
from django.db import migrations

class Migration(migrations.Migration):
    dependencies = [('shop', '0003_second')]
    operations = [migrations.RenameField('customer', 'city', 'town'), migrations.RenameModel('Tag', 'Label')]
'''
# Django groups by the primary key alone, unless its database cannot
ENGINE = '''
from django.db.backends.postgresql import base

class DatabaseFeatures(base.DatabaseFeatures):
    allows_group_by_selected_pks = False

class DatabaseWrapper(base.DatabaseWrapper):
    features_class = DatabaseFeatures
'''


def write(name, text):
    os.makedirs(os.path.dirname(name), exist_ok=True)
    with open(name, 'w') as file:
        file.write(text)


if len(sys.argv) == 1:
    write('engine/base.py', ENGINE)
    write('shop/__init__.py', '')
    write('shop/migrations/__init__.py', '')
    for stage, models in ('first', FIRST), ('second', SECOND), ('third', THIRD):
        write('shop/models.py', models)
        subprocess.run([sys.executable, '-P', __file__, stage], check=True)
    sys.exit(0)

sys.path.insert(0, os.getcwd())
import django  # noqa: E402
from django.conf import settings  # noqa: E402
from django.core.management import call_command  # noqa: E402

settings.configure(
    SECRET_KEY='x', USE_TZ=True, TIME_ZONE='UTC', DEFAULT_AUTO_FIELD='django.db.models.BigAutoField',
    INSTALLED_APPS=['django.contrib.contenttypes', 'django.contrib.auth', 'django.contrib.sessions', 'django.contrib.postgres', 'shop'],
    DATABASES={'default': {'ENGINE': 'engine', 'NAME': os.environ['PGDATABASE'], 'USER': os.environ['PGUSER'],
                           'PASSWORD': os.environ['PGPASSWORD'], 'HOST': os.environ['PGHOST'], 'PORT': os.environ['PGPORT']}})
django.setup()
from django.contrib.auth.models import User  # noqa: E402
from django.contrib.postgres.aggregates import ArrayAgg, StringAgg  # noqa: E402
from django.contrib.postgres.search import SearchVector  # noqa: E402
from django.contrib.sessions.backends.db import SessionStore  # noqa: E402
from django.db import IntegrityError, connection, transaction  # noqa: E402
from django.db.models import (Avg, Case, Count, Exists, F, Max, Min, OuterRef, Prefetch, Q, StdDev, Subquery, Sum, Value, When, Window)  # noqa: E402
from django.db.models.functions import Coalesce, Concat, Lower, Rank, RowNumber, TruncMonth  # noqa: E402
from shop import models as shop  # noqa: E402

Customer, Product, Order = shop.Customer, shop.Product, shop.Order
Tag = getattr(shop, 'Tag', None) or shop.Label


def manage(*arguments, **options):
    out = io.StringIO()
    call_command(*arguments, stdout=out, **options)
    return out.getvalue()


def key(number):
    return uuid.uuid5(uuid.NAMESPACE_OID, str(number))


def migrate(name=None):
    if name:
        manage('makemigrations', 'shop', name=name, interactive=False)
    manage('migrate', interactive=False)
    return manage('makemigrations', 'shop', check=True, dry_run=True)


def first():
    @step
    def create_tables():
        return migrate('initial')

    @step
    def distribute():
        write('shop/migrations/0002_distribute.py', DISTRIBUTE % ([
            own('distribute', "SELECT * FROM rdma.distribute_tables('nodes', '{shop_customer,shop_order,shop_tag}', '{id,key,word}', "
                "replicated => '{auth_user,shop_product}')"),
            own('distribute', "SELECT rdma.distribute_table('shop_tag_customers', 'nodes', 'tag_id', force => true)")],
            own('distribute', "SELECT * FROM rdma.undistribute_tables('{shop_customer,shop_order,shop_tag,shop_tag_customers,auth_user,shop_product}')")))
        return migrate()

    @step
    def local_again():
        manage('migrate', 'shop', '0001', interactive=False)
        return migrate()

    @step
    def create_users():
        User.objects.create_superuser('admin', 'admin@example.com', 'secret')
        return [User.objects.create_user('user%d' % i, password='secret').id for i in range(3)]

    @step
    def bulk_create():
        products = Product.objects.bulk_create([Product(sku='p%d' % i, price=Decimal(i) / 4) for i in range(10)])
        start = datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc)
        customers = Customer.objects.bulk_create([
            Customer(name='customer %d' % i, email='c%d@example.com' % (i % 50), user_id=1 + i % 4 if i % 5 else None, active=i % 3 > 0,
                     since=start + datetime.timedelta(hours=7 * i)) for i in range(200)])
        Order.objects.bulk_create([
            Order(key=key(i), number=i, placed=datetime.date(2026, 1, 1) + datetime.timedelta(days=i % 90), product=products[i % 10],
                  detail={'n': i, 'parts': [i % 3, 'x'], 'nested': {'odd': i % 2 == 1}}, payload=bytes([i % 256, 0, 255]) if i % 2 else None,
                  took=datetime.timedelta(minutes=i, microseconds=i)) for i in range(500)], batch_size=120)
        Tag.objects.bulk_create([Tag(word=word) for word in ('new', 'old', 'big')])
        return [product.id for product in products] + [customer.id for customer in customers[:5]]

    @step
    def many_to_many():
        Tag.objects.get(word='new').customers.add(*Customer.objects.filter(id__lte=20))
        Tag.objects.get(word='old').customers.set(Customer.objects.filter(id__range=(15, 30)))
        Customer.objects.get(id=16).tags.remove('old')
        Customer.objects.get(id=16).tags.add('big', 'new')
        return [list(tag.customers.values_list('id', flat=True)) for tag in Tag.objects.order_by('word')]

    @step
    def ignore_conflicts():
        Tag.objects.bulk_create([Tag(word='new'), Tag(word='late')], ignore_conflicts=True)
        return sorted(Tag.objects.values_list('word', flat=True))

    @step
    def refused_twice():
        Tag.objects.create(word='new')

    @step
    def refused_unknown_product():
        with transaction.atomic():
            Order.objects.filter(number=1).update(product_id=4711)
            connection.check_constraints()

    @step
    def dump_and_load():
        manage('dumpdata', 'shop', 'auth', output='dump.json')
        with open('dump.json') as file:
            size = len(file.read())
        Order.objects.filter(number__gt=400).delete()
        return size, manage('loaddata', 'dump.json'), Order.objects.count()

    @step
    def sequence_reset():
        with connection.cursor() as cursor:
            for sql in manage('sqlsequencereset', 'shop').splitlines():
                cursor.execute(sql)
        return Customer.objects.create(name='after reset').id


def second():
    @step
    def change_tables():
        return migrate('second')

    @step
    def migrate_back_and_forth():
        manage('migrate', 'shop', '0002', interactive=False)
        return migrate()

    reads()
    writes()


def reads():
    def queries(**named):
        for name, query in named.items():
            def run(query=query):
                result = query()
                return list(result) if hasattr(result, '__iter__') and not isinstance(result, (dict, str)) else result
            run.__name__ = name
            step(run)

    per_product = Order.objects.filter(product=OuterRef('pk'))
    queries(
        get=lambda: (Customer.objects.get(pk=7).name, Order.objects.get(pk=key(9)).detail, bytes(Order.objects.get(number=9).payload)),
        does_not_exist=lambda: Customer.objects.filter(pk=-1).first(),
        filters=lambda: Customer.objects.filter(Q(name__icontains='R 1') & ~Q(email__startswith='c1'), user__isnull=False).values_list('id', 'city'),
        in_and_exclude=lambda: Customer.objects.filter(id__in=[1, 5, 900]).exclude(tags__word='old').values('id', 'since'),
        count=lambda: (Customer.objects.count(), Order.objects.filter(placed__month=2).count(), Order.objects.filter(took__gt=datetime.timedelta(hours=2)).count()),
        aggregate=lambda: Order.objects.aggregate(Avg('number'), Max('placed'), Min('took'), Sum('product__price'), n=Count('product', distinct=True)),
        deviation=lambda: round(Order.objects.aggregate(d=StdDev('number'))['d'], 6),
        group_by_value=lambda: Order.objects.values('product__sku').annotate(n=Count('key'), total=Sum('product__price')).order_by('product__sku'),
        group_by_model=lambda: [(c.id, c.name, c.n) for c in Customer.objects.annotate(n=Count('tags')).filter(n__gt=0).order_by('id')],
        group_by_joined_model=lambda: [(p.sku, p.n, p.last) for p in Product.objects.annotate(n=Count('order'), last=Max('order__placed')).order_by('id')],
        having=lambda: Customer.objects.values('email').annotate(n=Count('id')).filter(n__gt=4).order_by('email'),
        select_related=lambda: [(o.number, o.product.sku, o.product.price) for o in Order.objects.select_related('product').order_by('-number')[:5]],
        prefetch_related=lambda: [(c.id, [t.word for t in c.tags.all()]) for c in
                                  Customer.objects.filter(id__lte=22).prefetch_related(Prefetch('tags', Tag.objects.order_by('word')))],
        reverse=lambda: [list(u.customer_set.values_list('id', flat=True)[:3]) for u in User.objects.order_by('id')],
        subquery=lambda: Product.objects.annotate(top=Subquery(per_product.order_by('-number').values('number')[:1])).values_list('sku', 'top').order_by('sku'),
        exists=lambda: (Order.objects.filter(number=3).exists(), Product.objects.filter(Exists(per_product.filter(number__lt=3))).count()),
        window=lambda: Order.objects.filter(number__lt=30).annotate(
            place=Window(RowNumber(), partition_by=F('product_id'), order_by=F('number').desc())).values_list('number', 'place').order_by('number'),
        rank=lambda: Customer.objects.filter(id__lt=9).annotate(r=Window(Rank(), order_by=F('email').asc())).values_list('id', 'r'),
        distinct=lambda: Order.objects.order_by('product_id', '-number').distinct('product_id').values_list('product_id', 'number'),
        union=lambda: Customer.objects.filter(id__lt=4).values_list('id').union(Order.objects.filter(number__lt=6).values_list('number')).order_by('id'),
        intersection=lambda: sorted(Customer.objects.values_list('id').intersection(Order.objects.values_list('number')))[:9],
        dates=lambda: (list(Order.objects.dates('placed', 'month')), list(Customer.objects.datetimes('since', 'week'))[:3]),
        truncate=lambda: Order.objects.annotate(m=TruncMonth('placed')).values('m').annotate(n=Count('pk')).order_by('m'),
        iterator=lambda: sum(o.number for o in Order.objects.iterator(chunk_size=50)),
        json=lambda: Order.objects.filter(detail__nested__odd=True, detail__n__lt=40, detail__parts__0=1).order_by('number').values_list('number', 'detail__n'),
        json_contains=lambda: (Order.objects.filter(detail__contains={'n': 7}).count(), Order.objects.filter(detail__has_key='nested').count()),
        case=lambda: Order.objects.annotate(size=Case(When(number__lt=100, then=Value('small')), default=Value('large'))).values('size').annotate(
            n=Count('pk')).order_by('size'),
        functions=lambda: Customer.objects.annotate(x=Concat(Lower('name'), Value(' '), Coalesce('user__username', Value('-')))).values_list('x', flat=True)[:6],
        array_aggregate=lambda: Tag.objects.values('word').annotate(who=ArrayAgg('customers', ordering='customers__id')).order_by('word'),
        string_aggregate=lambda: Customer.objects.filter(id__lt=9).order_by().aggregate(s=StringAgg('name', '; ', ordering='id')),
        search=lambda: (Customer.objects.annotate(s=SearchVector('name', 'email')).filter(s='customer').count(), Customer.objects.filter(name__search='77').count()),
        pattern=lambda: Customer.objects.filter(name__regex=r'^customer \d$', email__iendswith='EXAMPLE.COM').count(),
        bulk=lambda: sorted(Customer.objects.in_bulk([3, 4, 999]).items(), key=str),
        raw=lambda: [c.name for c in Customer.objects.raw('SELECT * FROM shop_customer WHERE id = ANY (%s) ORDER BY id', [[2, 3]])],
        earliest_and_latest=lambda: (Order.objects.earliest('placed', 'number').number, Order.objects.latest('placed', 'number').number),
        explain=lambda: len(Customer.objects.filter(id=1).explain(analyze=True)) > 20,
        ordered_by_other=lambda: Order.objects.order_by('product__price', F('took').desc(nulls_last=True)).values_list('number', flat=True)[:7],
        only_and_defer=lambda: [(c.name, c.email) for c in Customer.objects.only('name').filter(id__lt=3)])

    @step
    def inspect():
        # without the names that Django made of random letters
        return [line for line in manage('inspectdb', 'shop_customer', 'shop_order', 'shop_tag').splitlines()[5:]]

    @step
    def tables_seen():
        return sorted(connection.introspection.table_names())

    @step
    def sequences_seen():
        with connection.cursor() as cursor:
            return connection.introspection.get_sequences(cursor, 'shop_customer')

    @step
    def indexes_seen():
        with connection.cursor() as cursor:
            return sorted(name for name, value in connection.introspection.get_constraints(cursor, 'shop_order').items() if value['index'] or value['unique'])


def writes():
    @step
    def unique_together():
        with connection.schema_editor() as editor:
            editor.alter_unique_together(Order, set(), {('key', 'placed')})
            editor.alter_unique_together(Order, {('key', 'placed')}, set())

    @step
    def save():
        customer = Customer(name='saved')
        customer.save()
        customer.name = 'saved again'
        customer.save(update_fields=['name'])
        customer.email = 'x@example.com'
        customer.save()
        return customer.id, Customer.objects.get(pk=customer.pk).email

    @step
    def get_or_create():
        return [Product.objects.get_or_create(sku=sku, defaults={'price': 9})[1] for sku in ('p1', 'fresh', 'fresh')]

    @step
    def update_or_create():
        return [Order.objects.update_or_create(pk=key(n), defaults={'number': n, 'placed': datetime.date(2026, 5, 1), 'product_id': 1})[1] for n in (3, 9003, 9003)]

    @step
    def update():
        return (Order.objects.filter(number__lt=10).update(number=F('number') + 10000, state='paid'),
                Customer.objects.filter(pk=3).update(name=Concat('name', Value('!'))), Product.objects.update(price=F('price') * 2),
                Customer.objects.filter(pk__in=Subquery(Tag.objects.filter(word='old').values('customers'))).update(city='Graz'),
                list(Order.objects.filter(state='paid').order_by('number').values_list('number', flat=True)))

    @step
    def bulk_update():
        orders = list(Order.objects.filter(number__range=(20, 40)).order_by('number'))
        for order in orders:
            order.weight, order.detail = order.number / 2, {'changed': order.number}
        Order.objects.bulk_update(orders, ['weight', 'detail'], batch_size=8)
        return list(Order.objects.filter(number__range=(20, 40)).order_by('number').values_list('number', 'weight', 'detail'))

    @step
    def select_for_update():
        with transaction.atomic():
            rows = [o.number for o in Order.objects.select_for_update(skip_locked=True).filter(number__lt=15).order_by('number')]
            rows += [o.number for o in Order.objects.select_for_update(of=('self',)).select_related('product').filter(number__lt=14).order_by('number')]
            customer = Customer.objects.select_for_update(nowait=True).get(pk=5)
            customer.city = 'Linz'
            customer.save()
        return rows

    @step
    def savepoints():
        with transaction.atomic():
            Customer.objects.filter(pk=1).update(name='outer')
            try:
                with transaction.atomic():
                    Tag.objects.create(word='inner')
                    Tag.objects.create(word='inner')
            except IntegrityError as error:
                found = error.__cause__.pgcode
            Customer.objects.filter(pk=2).update(name='outer')
        return found, Customer.objects.filter(name='outer').count(), Tag.objects.filter(word='inner').count()

    @step
    def rollback():
        try:
            with transaction.atomic():
                Customer.objects.all().delete()
                Order.objects.all().update(number=0)
                raise KeyError
        except KeyError:
            return Customer.objects.count(), Order.objects.aggregate(Sum('number'))

    @step
    def refused_by_check():
        Customer.objects.filter(pk=4).update(name='')

    @step
    def refused_protected():
        Product.objects.get(sku='p1').delete()

    @step
    def delete():
        return (Order.objects.filter(number__range=(100, 150)).delete(), Tag.objects.get(word='big').delete(), User.objects.get(username='user2').delete(),
                Customer.objects.filter(user__isnull=True).count())

    @step
    def sessions():
        session = SessionStore()
        session['cart'] = [1, 2]
        session.save()
        session['cart'] = [3]
        session.save()
        return SessionStore(session.session_key)['cart']

    @step
    def sums():
        return [list(model.objects.aggregate(n=Count('pk'), m=Max('pk' if model is not Order else 'number')).values()) for model in (Customer, Product, Order, Tag, User)]


def third():
    write('shop/migrations/0004_rename.py', RENAME)

    @step
    def rename():
        return migrate('third')

    @step
    def read_renamed():
        return (list(Customer.objects.filter(town='Graz').values_list('id', flat=True)), Order.objects.aggregate(Sum('weight')), Tag.objects.get(word='new').customers.count(),
                Order.objects.filter(weight=1.5).count(), Customer.objects.filter(note='').count())

    @step
    def write_renamed():
        order = Order.objects.create(key=key(77777), number=77777, placed=datetime.date(2026, 6, 1), product_id=5, weight=Decimal('1.125'))
        return Order.objects.get(pk=order.pk).weight, Tag.objects.create(word='last').customers.count()

    @step
    def new_table():
        # a local one, whose foreign key refers to a distributed table
        shop.Visit.objects.create(customer_id=5)
        shop.Visit.objects.create(customer_id=6)
        found = list(shop.Visit.objects.filter(customer__town='Linz').values_list('customer_id', flat=True))
        return found, Customer.objects.get(pk=5).delete()[0], shop.Visit.objects.count()

    @step
    def flush():
        manage('flush', interactive=False)
        return Customer.objects.count(), Order.objects.count(), Customer.objects.create(name='the first again').id

    @step
    def drop_tables():
        for app in 'shop', 'sessions', 'auth', 'contenttypes':
            manage('migrate', app, 'zero', interactive=False)
        connection.cursor().execute('DROP TABLE django_migrations')
        return sorted(connection.introspection.table_names())


globals()[sys.argv[1]]()
