// Calls of go-busybox's applets, which two engines must answer alike. A chapter is a computer of its own, in which its calls follow one
// another; each begins with the files of `files`. A row is the words of a call, those with blanks between quotes; then, if there
// are any, its stdin, and why the engines may answer differently (`differs`).
export const files = {
    'poem': 'the rose is red\nthe violet is blue\nsugar is sweet\nand so are you\n',
    'numbers': '10\n9\n2\n33\n1\n-4\n2\n0\n',
    'repeated': 'a\na\nb\nB\nb\nb\nc\n',
    'fields': 'name:age:town\nann:31:Oslo\nbob:7:Rome\ncy::\n',
    'tabs': 'one\ttwo\tthree\n1\t2\t3\n',
    'blanks': '  lead\n\n\ntrail  \nin  the  middle\n',
    'unended': 'first\nlast without end',
    'empty': '',
    'crlf': 'dos\r\nline\r\n',
    'umlauts': 'grüße\n日本語\nß\n',
    'bytes': Buffer.from(Array.from({ length: 256 }, (_, i) => i)),
    'long': `${'x'.repeat(5000)}\nshort\n`,
    'many': Array.from({ length: 500 }, (_, i) => `line ${i + 1}\n`).join(''),
    'tree/a.txt': 'alpha\n',
    'tree/b.md': 'beta\n',
    'tree/sub/c.txt': 'gamma\n',
    'tree/sub/deeper/d.txt': 'delta\n',
    'other': 'the rose is red\nthe violet is violet\nsugar is sweet\n',
    'with blank': 'its name has a blank\n',
};

const ABOVE = 'what is above the root is an error here, and for node the root itself';
const RANDOM_ORDER = 'the list of applets comes in the order of a Go map, which is another each time';

export const chapters = {
    'echo and printf': [
        ['echo'], ['echo hi'], ['echo -n hi'], ['echo -e a\\tb'], ['echo -E a\\tb'], ["echo 'a  b' c"], ['echo --'], ['echo -'],
        ['echo grüße 日本'], ['printf'], ['printf hi'], ['printf hi\\n'], ['printf %s\\n a b c'], ['printf %d\\n 7'], ['printf %5d| 7'],
        ['printf %-5s|%s\\n a b'], ['printf %x\\n 255'], ['printf %o\\n 8'], ['printf %c\\n abc'], ['printf %%'], ['printf %d x'],
        ['printf %s'], ['printf a\\\\b'],
    ],
    'cat, head, tail': [
        ['cat poem'], ['cat poem numbers'], ['cat', 'from stdin\n'], ['cat -', 'from stdin\n'], ['cat poem - numbers', 'between\n'],
        ['cat absent'], ['cat poem absent numbers'], ['cat tree'], ['cat empty'], ['cat unended numbers'], ["cat 'with blank'"],
        ['cat -n poem'], ['cat -b blanks'], ['cat -e blanks'], ['cat umlauts'], ['cat /poem'], ['cat ./tree/../poem'],
        ['cat tree/sub/deeper/../c.txt'], ['cat ../../poem', '', { differs: ABOVE }],
        ['head poem'], ['head -n 2 poem'], ['head -n 0 poem'], ['head -n 1000 many'], ['head -n 3 many'], ['head -c 5 poem'],
        ['head -n 2', 'a\nb\nc\n'], ['head poem numbers'], ['head absent'], ['head -n x poem'], ['head -n -3 poem'], ['head many'],
        ['tail poem'], ['tail -n 2 poem'], ['tail -n 1 unended'], ['tail -n +3 poem'], ['tail -c 4 poem'], ['tail -n 2', 'a\nb\nc\n'],
        ['tail many'], ['tail absent'], ['tail -n 0 poem'], ['tail poem numbers'],
    ],
    'wc, cut, tr': [
        ['wc poem'], ['wc -l poem'], ['wc -w poem'], ['wc -c poem'], ['wc -m umlauts'], ['wc', 'a b\nc\n'], ['wc poem numbers'],
        ['wc empty'], ['wc -l unended'], ['wc absent'], ['wc -c bytes'],
        ['cut -d : -f 1 fields'], ['cut -d : -f 2,3 fields'], ['cut -d : -f 2- fields'], ['cut -f 2 tabs'], ['cut -c 1-3 poem'],
        ['cut -c 5 poem'], ['cut -b 1-2 umlauts'], ['cut -s -d : -f 2 poem'], ['cut poem'], ['cut -d , -f 2', 'x,y\n'], ['cut -f x tabs'],
        ['tr a-z A-Z', 'Mixed case\n'], ['tr -d aeiou', 'no vowels here\n'], ['tr -s l', 'hello  all\n'], ['tr -cd 0-9', 'a1b2c3\n'],
        ['tr abc x', 'aabbcc\n'], ['tr [:lower:] [:upper:]', 'class\n'], ['tr'], ['tr a'], ['tr \\n ,', 'a\nb\n'], ['tr -d \\r', 'dos\r\n'],
    ],
    'sort and uniq': [
        ['sort poem'], ['sort -r poem'], ['sort numbers'], ['sort -n numbers'], ['sort -nr numbers'], ['sort -u repeated'],
        ['sort -k 2 poem'], ['sort -t : -k 2 fields'], ['sort -t : -k 2 -n fields'], ['sort -f repeated'], ['sort', 'b\na\n'],
        ['sort empty'], ['sort unended numbers'], ['sort absent'], ['sort -o sorted numbers'], ['cat sorted'], ['sort -c numbers'],
        ['sort -c sorted'], ['sort many'], ['sort -b blanks'],
        ['uniq repeated'], ['uniq -c repeated'], ['uniq -d repeated'], ['uniq -u repeated'], ['uniq -i repeated'],
        ['uniq', 'x\nx\ny\n'], ['uniq absent'], ['uniq repeated once'], ['cat once'], ['uniq -f 1 poem'],
    ],
    'grep and sed': [
        ['grep rose poem'], ['grep -v rose poem'], ['grep -c is poem'], ['grep -n is poem'], ['grep -i ROSE poem'], ['grep absent poem'],
        ['grep rose absent'], ['grep -l rose poem other numbers'], ['grep -L rose poem other numbers'], ['grep rose poem other'],
        ['grep -h rose poem other'], ['grep -E (red|blue) poem'], ['grep -F . poem'], ['grep ^the poem'], ['grep -o is poem'],
        ['grep -w so poem'], ['grep -x sugar poem'], ['grep -q rose poem'], ['grep -q absent poem'], ['grep -r alpha tree'],
        ['grep -e red -e blue poem'], ['grep [ poem'], ['grep'], ['grep b', 'abc\nxyz\n'], ['grep -A 1 violet poem'],
        ['grep -B 1 sugar poem'], ['grep -C 1 sugar poem'], ['grep -m 1 is poem'], ['grep ü umlauts'],
        ['sed s/rose/tulip/ poem'], ['sed s/s/S/g poem'], ['sed -n 2p poem'], ['sed 2d poem'], ['sed -n /sugar/p poem'],
        ['sed /the/d poem'], ['sed 1,2d poem'], ['sed $d poem'], ['sed -e s/a/1/ -e s/b/2/', 'ab\n'], ["sed 's/\\(r\\)ose/\\1ows/' poem"],
        ['sed s|is|IS| poem'], ['sed y/abc/xyz/', 'aabbcc\n'], ['sed q poem'], ['sed s/x poem'], ['sed -i s/red/pink/ poem'], ['cat poem'],
        ['sed p numbers'], ["sed '1i above' numbers"], ["sed '1a below' numbers"], ['sed = tabs'], ['sed s/^/>/ unended'],
        ['sed s/a/b/ absent'],
    ],
    'diff, find, ls': [
        ['diff poem poem'], ['diff poem other'], ['diff -u poem other'], ['diff -q poem other'], ['diff poem absent'], ['diff poem'],
        ['diff poem -', 'the rose is red\n'],
        ['find tree -name a.txt'], ['find tree -name *.md'], ['find tree/sub/deeper'], ['find absent'], ['find tree/sub -type d'],
        ['find tree/sub/deeper -type f'], ['find tree -maxdepth 0'], ['find . -name poem'], ['find /tree -name a.txt'],
        ['find tree'], ['find . -type f'],
        ['ls'], ['ls /'], ['ls .'], ['ls tree'], ['ls -1 tree'], ['ls -a tree/sub'], ['ls absent'], ['ls poem'], ['ls poem absent'],
        ['ls tree tree/sub'], ['ls -R tree'], ['ls -d tree'], ['ls -r tree'],
    ],
    'cp, mv, rm, mkdir': [
        ['cp poem copy'], ['cat copy'], ['cp poem tree'], ['cat tree/poem'], ['cp absent x'], ['cp poem'], ['cp tree x'],
        ['cp -r tree copied'], ['ls -R copied'], ['cat copied/sub/deeper/d.txt'], ['cp poem numbers copied'], ['ls copied'],
        ['cp poem /absolute'], ['cat /absolute'], ['cp poem absent/x'], ['cp bytes bytes2'], ['diff bytes bytes2'],
        ['mv copy moved'], ['ls copy'], ['cat moved'], ['mv moved tree'], ['cat tree/moved'], ['mv absent x'], ['mv copied renamed'],
        ['ls renamed'], ['mv poem numbers tree'], ['ls tree'],
        ['mkdir new'], ['mkdir new'], ['mkdir -p new/a/b/c'], ['mkdir absent/x'], ['mkdir'], ['ls -R new'], ['mkdir m1 m2'],
        ['rmdir new'], ['rmdir new/a/b/c'], ['ls -R new'], ['rmdir absent'], ['rmdir fields'], ['rmdir m1 m2'],
        ['rm fields'], ['cat fields'], ['rm absent'], ['rm -f absent'], ['rm tree'], ['rm -r tree'], ['ls tree'], ['rm -rf renamed new'],
        ['rm'], ["rm 'with blank' empty"], ['ls'],
    ],
    'tar and gzip': [
        ['tar -cf all.tar tree'], ['tar -tf all.tar'], ['mkdir out'], ['tar -xf all.tar -C out'],
        ['ls -R out'], ['cat out/tree/sub/deeper/d.txt'], ['tar -tf absent'], ['tar -tf poem'], ['tar'], ['tar -x', 'no archive'],
        ['tar -czf all.tgz tree/sub/deeper/d.txt poem'], ['tar -tzf all.tgz'], ['rm poem'], ['tar -xzf all.tgz'], ['cat poem'],
        ['gzip numbers'], ['ls numbers'], ['gunzip numbers.gz'], ['cat numbers'], ['gzip -c poem'],
        ['gzip absent'], ['gunzip poem'], ['gunzip absent.gz'], ['gzip -k many'], ['gunzip -c many.gz'], ['gzip -d many.gz'], ['cat many'],
    ],
    'what there is of a system': [
        ['pwd'], ['nproc'], ['sleep 0'], ['sleep 0.01'], ['sleep'], ['sleep x'], ['ps'], ['kill'], ['kill 1'], ['free'], ['uptime'], ['whoami'],
        ['logname'], ['users'], ['w'], ['who'], ['top'], ['time echo'], ['timeout 1 echo'], ['nohup echo'], ['nice echo'], ['watch'],
        ['xargs echo', 'a b\n'], ['sh -c echo'], ['ash'], ['nc'], ['nc localhost 1'], ['dig example.org'], ['ss'], ['pidof x'], ['setsid echo'],
        ['awk 1', 'x\n'], ['wget http://example.org/'],
        ['date', '', { differs: RANDOM_ORDER }], ['touch x', '', { differs: RANDOM_ORDER }], ['--list', '', { differs: RANDOM_ORDER }],
    ],
};

// The words of a row.
export function words(row) {
    return [...row.matchAll(/'([^']*)'|(\S+)/g)].map((m) => m[1] ?? m[2]);
}
