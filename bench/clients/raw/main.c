/* raw LOAD name=value...: what each load takes is told in its file. */
#include "client.h"

#include <string.h>

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "appenders"))
        return appenders(argc, argv);
    if (argc > 1 && !strcmp(argv[1], "commits"))
        return commits(argc, argv);
    die("usage: raw appenders|commits name=value...");
}
