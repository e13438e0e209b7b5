# What Mojolicious' param holds, that of the path among them.
use Mojolicious::Lite -signatures;
any '/' => sub ($c) { $c->render(text => $c->param('api_key') // '') };
any '/at/#api_key' => sub ($c) { $c->render(text => $c->param('api_key') // '') };
app->log->level('fatal');
app->start('daemon', '-l', "http://127.0.0.1:$ARGV[0]");
