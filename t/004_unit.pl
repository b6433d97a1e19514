
# Pure logic is tested by programs of its own, which make builds from
# t/unit/*.c; each speaks TAP.

use strict;
use warnings;

use Cwd qw(abs_path);
use File::Basename;
use PostgreSQL::Test::Utils;
use Test::More;

my @programs = glob(dirname(abs_path($0)) . '/unit/*.c');
cmp_ok(scalar @programs, '>', 0, 'there are unit tests');

foreach my $source (@programs)
{
	(my $program = $source) =~ s/\.c$//;
	my $output = '';
	my $result = IPC::Run::run([$program], '>&', \$output);

	ok($result, basename($program) . ' passes') or diag($output);
	like($output, qr/^1\.\.\d+$/m, basename($program) . ' ran to its end');
	note($output);
}

done_testing();
