# docs/reference.md says of columns, settings, plans and reasons what there really is:
# what it leaves out, makes up, or has the wrong type for, is found here.

use strict;
use warnings;

use JSON::PP;
use PostgreSQL::Test::Utils;
use Test::More;

use Resume;
use Trouble;

my $node = resume_node('reference', conf => "autovacuum = off\n");
my $reference = slurp_file('docs/reference.md');

sub query
{
	return split /\n/, $node->safe_psql('postgres', @_);
}

# Lines of a section's tables, one list of cells for each
sub section
{
	my ($title) = @_;
	my ($text) = $reference =~ /^#+ \Q$title\E\n(.*?)(?=^#|\z)/ms;

	return map { [ map { s/^ +| +$//gr } split /\|/, $_ ] } defined $text ? $text =~ /^\|(.*`.*)\|$/mg : ();
}

# "name type" for each line that begins with a name
sub documented
{
	return map { $_->[0] =~ /^`(.*)`$/ ? "$1 $_->[1]" : () } section(@_);
}

###############################################################################
# SQL
###############################################################################

foreach my $view ('vacuum_resume.progress', 'vacuum_resume.history')
{
	my @real = query(
		"SELECT attname || ' ' || format_type(atttypid, NULL) FROM pg_attribute
		WHERE attrelid = '$view'::regclass AND attnum > 0 ORDER BY attnum");

	is_deeply([ documented($view) ], \@real, "the columns of $view");
}

my @decide = query(
	q{SELECT name || ' ' || format_type(type, NULL)
	FROM pg_proc, unnest(proargnames, proallargtypes, proargmodes) WITH ORDINALITY AS a (name, type, mode, n)
	WHERE pg_proc.oid = 'vacuum_resume.decide'::regproc AND mode = 'o' ORDER BY n});
is_deeply([ documented('vacuum_resume.decide(relation, by)') ], \@decide, 'the columns of decide()');

my @functions = map { $_->[0] =~ /^`vacuum_resume\.(\w+)\(.*\)`$/ } section('Other functions');
is_deeply([ sort @functions, 'decide' ],
	[ query(q{SELECT proname FROM pg_proc WHERE pronamespace = 'vacuum_resume'::regnamespace ORDER BY 1}) ],
	'the functions');

my @settings = map { [ map { tr/`//dr } @$_ ] } section('Settings');
foreach my $setting (@settings)
{
	my ($name, $type, $default, $range, $who) = @$setting;
	my ($real) = query(
		qq{SELECT concat_ws(' ', vartype, context,
			CASE vartype WHEN 'integer' THEN concat(min_val, ' to ', max_val, ' (' || unit || ')')
				WHEN 'enum' THEN array_to_string(enumvals, ', ') END)
		FROM pg_settings WHERE name = '$name'});
	my ($boot) = query(qq{SELECT concat_ws(' ', boot_val, unit) FROM pg_settings WHERE name = '$name'});

	is($real, join(' ', $type, $who, $range eq '' ? () : $range), "$name: type, context and range");
	is(amount($boot), amount($default), '  default');
}
is_deeply([ sort map { $_->[0] } @settings ],
	[ query(q{SELECT name FROM pg_settings WHERE name LIKE 'vacuum_resume.%' ORDER BY name COLLATE "C"}) ],
	'all settings');

# An amount of time or memory in its least unit; all else as it is
sub amount
{
	my ($text) = @_;
	my %units = (ms => 1, s => 1000, kB => 1, '8kB' => 8, MB => 1024);

	return $text =~ /^(\d+) ?(8kB|[a-zA-Z]+)$/ ? $1 * $units{$2} : $text;
}

# README has them all as well, with the same defaults
my %readme = slurp_file('README.md') =~ /^\| `(vacuum_resume\.\w+)` \| `(\w+)` \|/mg;
is_deeply(\%readme, { map { @{$_}[ 0, 2 ] } @settings }, 'README has the same settings');

my @options = slurp_file('src/command.c') =~ /strcmp\(option->defname, "(\w+)"\) == 0\)\n\t\t\{\n\t\t\town->/g;
is_deeply([ map { lc(tr/`//dr) } map { $_->[0] } section('Options of VACUUM') ], \@options, 'the options of VACUUM');

###############################################################################
# Words
###############################################################################

# The source file that defines a function
sub source_of
{
	my ($function) = @_;
	my @found = grep { /^\Q$function\E\(.*\)$/m } map { slurp_file($_) } glob 'src/*.c';

	is(scalar @found, 1, "there is one $function()");
	return $found[0];
}

# The words that a function returns
sub texts
{
	my ($function) = @_;
	my ($body) = source_of($function) =~ /^\Q$function\E\(.*?^\{\n(.*?)^\}/ms;

	return grep { $_ ne 'unknown' } $body =~ /return "([^"]+)";/g;
}

# Functions that the documents name as the keepers of a rule
my $sources = join '', map { slurp_file($_) } glob 'src/*.c tools/inspect/*.c include/*.h';
my %named = map { $_ => 1 } map { slurp_file($_) =~ /`(\w+)\(\)`/g } glob 'docs/*.md';
cmp_ok(scalar keys %named, '>', 20, 'the documents name functions');
is(join(' ', grep { $sources !~ /^(?:extern .*)?\b\Q$_\E\(/m } sort keys %named), '', '  which are there');

is_deeply([ map { $_->[0] =~ tr/`//dr } section('Plans') ], [ texts('vacuum_plan_name') ], 'the plans');

my @reasons = texts('decide_reason_text');
my @documented = map { $_->[0] =~ tr/`//dr } section('Reasons');
is_deeply([ sort @documented ], [ sort @reasons ], 'the reasons');

my ($phases) = map { $_->[2] } grep { $_->[0] eq '`phase`' } section('vacuum_resume.progress');
is_deeply([ $phases =~ /`([^`]+)`/g ], [ texts('cycle_phase_name') ], 'the phases');
my ($outcomes) = map { $_->[2] } grep { $_->[0] eq '`outcome`' } section('vacuum_resume.history');
is_deeply([ sort $outcomes =~ /`([^`]+)`/g ], [ sort 'killed', texts('cycle_stop_name') ],
	'how runs end');

###############################################################################
# The tool
###############################################################################

make_table($node, 'looked_at', pages => 40);
stop_at($node, 'looked_at', 'scanning heap');
slice($node, 'looked_at');

foreach my $command ('list', 'show', 'explain', 'history')
{
	my @call = ($node->installed_command('pg_vacuum_resume'), $command, '-D', $node->data_dir,
		$command eq 'list' ? () : 'looked_at');
	my ($csv, $json) = ('', '');

	IPC::Run::run([ @call, '--csv' ], '>', \$csv) or die "$command fails";
	IPC::Run::run([ @call, '--json' ], '>', \$json) or die "$command fails";
	my ($head) = split /\n/, $csv;
	my ($first) = $json =~ /\{(.*?)\}/s;
	my @columns = map { s/ .*//r } documented($command);

	is_deeply([ split /,/, $head ], \@columns, "the columns of $command --csv");
	my %type = map { split / /, $_ } documented($command);
	my @as_json = $first =~ /^ *"(\w+)": (".*"|-?[\d.]+|null),?$/mg;
	my @wrong;
	for (my $i = 0; $i < @as_json; $i += 2)
	{
		my ($name, $value) = @as_json[ $i, $i + 1 ];
		push @wrong, "$name $value" if ($value =~ /^"/) != ($type{$name} eq 'text') && $value ne 'null';
	}
	is(scalar @as_json / 2, scalar @columns, "  and of $command --json");
	is("@wrong", '', '  of these types');

	# those of which it is said that they are as SQL's
	my ($of) = slurp_file('docs/reference.md') =~ /^### $command\n.*?as in `(\w+)/ms;
	my ($sql) = grep { /^vacuum_resume\.$of\b/ } $reference =~ /^## (\S+.*)$/mg;
	my %there = map { (split / /, $_)[0] => 1 } documented($sql);
	my @same = map { $_->[2] =~ /^`(\w+)`(?:[,;]|$)/ } grep { $_->[0] =~ /^`/ } section($command);
	cmp_ok(scalar @same, '>', @columns / 2, '  of which most are as in SQL');
	is(join(' ', grep { !$there{$_} } @same), '', "  and what it says of $of is there");
}

$node->stop;

done_testing();
